package ruleexpiry

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
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
