package manager

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestStuckClaims(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	deleting := func(ago time.Duration, finalizers ...string) *resourceapi.ResourceClaim {
		at := metav1.NewTime(now.Add(-ago))
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, Finalizers: finalizers}}
	}
	used := deleting(time.Hour, resourceapi.Finalizer)
	used.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Name: "pod"}}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	want := 0
	for name, tt := range map[string]struct {
		claim *resourceapi.ResourceClaim
		stuck bool
	}{
		"not in deletion":         {&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{resourceapi.Finalizer}}}, false},
		"for five minutes":        {deleting(5*time.Minute, resourceapi.Finalizer), false},
		"for longer":              {deleting(5*time.Minute+time.Second, resourceapi.Finalizer), true},
		"used by a pod":           {used, false},
		"held by another as well": {deleting(time.Hour, resourceapi.Finalizer, "example.com/a"), false},
		"held by another":         {deleting(time.Hour, "example.com/a"), false},
	} {
		if got := stuck(tt.claim, now); got != tt.stuck {
			t.Errorf("%s: stuck is %v", name, got)
		}
		tt.claim.Name = name
		if tt.stuck {
			want++
		}
		if err := store.Add(tt.claim); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	if err := NewClaimMetrics(registry, store, func() time.Time { return now }); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || int(families[0].Metric[0].Gauge.GetValue()) != want {
		t.Errorf("%v, %v, want %d", families, err, want)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
