package rulebegin_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/internal/controllers/rulebegin"
	"github.com/dra-steward/dra-steward/internal/guard"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rule was created an hour before noon.
func rule(generation int64, effect resourceapi.DeviceTaintEffect, pool string, conditions ...metav1.Condition) *resourceapi.DeviceTaintRule {
	r := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken", UID: "1", Generation: generation, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))}}
	r.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: effect}
	r.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
	if pool != "" {
		r.Spec.DeviceSelector.Pool = &pool
	}
	r.Status.Conditions = conditions
	return r
}

func written(status metav1.ConditionStatus, generation int64) metav1.Condition {
	return metav1.Condition{Type: guard.BeganCondition, Status: status, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}
}

func TestDecide(t *testing.T) {
	const no, yes = resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute
	for name, tt := range map[string]struct {
		previous, rule *resourceapi.DeviceTaintRule
		status         metav1.ConditionStatus // empty: nothing is written
		ago            time.Duration
	}{
		"created with NoExecute":          {nil, rule(1, yes, "a"), "", 0},
		"never evicted":                   {nil, rule(3, no, "a"), "", 0},
		"changed to NoExecute":            {rule(1, no, "a"), rule(2, yes, "a"), metav1.ConditionTrue, 0},
		"changed while no replica ran":    {nil, rule(2, yes, "a"), metav1.ConditionTrue, 0},
		"written":                         {nil, rule(2, yes, "a", written(metav1.ConditionTrue, 2)), "", 0},
		"stopped":                         {rule(2, yes, "a", written(metav1.ConditionTrue, 2)), rule(3, no, "a", written(metav1.ConditionTrue, 2)), metav1.ConditionFalse, 0},
		"stopped, and written":            {nil, rule(3, no, "a", written(metav1.ConditionFalse, 3)), "", 0},
		"changed again":                   {rule(3, no, "a"), rule(4, yes, "a", written(metav1.ConditionFalse, 3)), metav1.ConditionTrue, 0},
		"narrowed":                        {rule(2, yes, "", written(metav1.ConditionTrue, 2)), rule(3, yes, "a", written(metav1.ConditionTrue, 2)), metav1.ConditionTrue, time.Minute},
		"narrowed since it was created":   {rule(1, yes, ""), rule(2, yes, "a"), metav1.ConditionTrue, time.Hour},
		"widened":                         {rule(2, yes, "a", written(metav1.ConditionTrue, 2)), rule(3, yes, "", written(metav1.ConditionTrue, 2)), metav1.ConditionTrue, 0},
		"narrowed while no replica ran":   {nil, rule(3, yes, "a", written(metav1.ConditionTrue, 2)), metav1.ConditionTrue, 0},
		"stopped and begun between looks": {rule(2, yes, "a", written(metav1.ConditionTrue, 2)), rule(4, yes, "a", written(metav1.ConditionTrue, 2)), metav1.ConditionTrue, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := rulebegin.Decide(tt.previous, tt.rule, noon)
			if got == nil || tt.status == "" {
				if got != nil || tt.status != "" {
					t.Errorf("got %+v, want %q", got, tt.status)
				}
				return
			}
			if ago := noon.Sub(got.LastTransitionTime.Time); got.Status != tt.status || ago != tt.ago || got.ObservedGeneration != tt.rule.Generation {
				t.Errorf("got %s of generation %d, %s ago; want %s, %s ago", got.Status, got.ObservedGeneration, ago, tt.status, tt.ago)
			}
			apimeta.SetStatusCondition(&tt.rule.Status.Conditions, *got)
			if again := rulebegin.Decide(tt.rule, tt.rule, noon.Add(time.Hour)); again != nil {
				t.Errorf("a second time: %+v", again)
			}
		})
	}
}

// TestController: a change is written once, also after an error, and the deletion of a rule
// leaves nothing behind.
func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(rule(1, resourceapi.DeviceTaintEffectNone, "a"))
		factory := informers.NewSharedInformerFactory(client, 0)
		informer := factory.Resource().V1().DeviceTaintRules().Informer()
		var turn sync.Mutex
		var writes []metav1.Condition
		fails := 1
		write := func(ctx context.Context, r *resourceapi.DeviceTaintRule, condition metav1.Condition) error {
			turn.Lock()
			defer turn.Unlock()
			if fails--; fails >= 0 {
				return errors.New("the API server is busy")
			}
			writes = append(writes, condition)
			r = r.DeepCopy()
			apimeta.SetStatusCondition(&r.Status.Conditions, condition)
			_, err := client.ResourceV1().DeviceTaintRules().UpdateStatus(ctx, r, metav1.UpdateOptions{})
			return err
		}
		ctx, stop := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		ended := make(chan error)
		go func() {
			ended <- rulebegin.New(rulebegin.Options{Rules: informer, Write: write, Logger: logr.Discard()}).Run(ctx)
		}()
		<-time.After(time.Second)
		if _, err := client.ResourceV1().DeviceTaintRules().Update(ctx, rule(2, resourceapi.DeviceTaintEffectNoExecute, "a"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		if err := client.ResourceV1().DeviceTaintRules().Delete(ctx, "broken", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		factory.Shutdown()
		if len(writes) != 1 || writes[0].Status != metav1.ConditionTrue || writes[0].ObservedGeneration != 2 {
			t.Errorf("wrote %+v", writes)
		}
	})
}
