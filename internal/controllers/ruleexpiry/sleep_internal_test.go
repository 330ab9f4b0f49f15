package ruleexpiry

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestSleepIsBounded: the timer for a rule that expires in a day is checked every minute,
// because the monotonic clock of a suspended machine stands still.
func TestSleepIsBounded(t *testing.T) {
	rules := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Resource().V1().DeviceTaintRules().Informer()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "day",
		Annotations: map[string]string{v1alpha1.ExpiresAnnotation: time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)}}}
	if err := rules.GetStore().Add(rule); err != nil {
		t.Fatal(err)
	}
	next, any := New(Options{Rules: rules, Logger: logr.Discard()}).pass(t.Context(), time.Now())
	if !any || next > time.Minute {
		t.Errorf("waits %s, want at most a minute", next)
	}
}

// TestWrongAnnotation: an annotation that cannot be read is logged once for each text of it, and forgotten with its rule.
func TestWrongAnnotation(t *testing.T) {
	said := 0
	rules := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Resource().V1().DeviceTaintRules().Informer()
	c := New(Options{Rules: rules, Logger: funcr.New(func(_, text string) { said++; t.Log(text) }, funcr.Options{})})
	for i, step := range []struct {
		expires []string
		said    int
	}{{[]string{""}, 1}, {[]string{""}, 1}, {[]string{"tomorrow"}, 2}, {[]string{"2026-01-02T03:04"}, 3}, {nil, 3}, {[]string{"2026-01-02T03:04"}, 4}} {
		var stored []any
		for _, text := range step.expires {
			stored = append(stored, &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "wrong", UID: "wrong", Annotations: map[string]string{v1alpha1.ExpiresAnnotation: text}}})
		}
		if err := rules.GetStore().Replace(stored, ""); err != nil {
			t.Fatal(err)
		}
		c.pass(t.Context(), time.Now())
		if said != step.said || len(c.wrong) != len(stored) {
			t.Errorf("step %d: said %d times, want %d; %d are remembered", i, said, step.said, len(c.wrong))
		}
	}
}
