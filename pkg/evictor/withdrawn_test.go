package evictor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// TestPlanChangesWhileAPodWaits: while all workers wait for the API server, a pod that waits for one
// of them gets another plan. The worker carries out the last one.
func TestPlanChangesWhileAPodWaits(t *testing.T) {
	deleteRule := func(b *bubble) {
		b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule", metav1.DeleteOptions{}))
	}
	for name, test := range map[string]struct {
		with   []runtime.Object
		change func(*bubble)
		want   time.Duration
	}{
		"cancelled": {change: deleteRule},
		"later": {change: func(b *bubble) {
			_, claim := podOn("waits", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](3600)))
			b.updateClaim(claim)
		}, want: time.Hour},
		"replaced by a later one": {change: func(b *bubble) {
			_, claim := podOn("waits", "pod", "gpu-0", tolerate(noExecute, ptr.To[int64](3600)))
			b.updateClaim(claim)
			deleteRule(b)
			b.createRule(ruleOn("other", "gpu-0", seconds(0)))
		}, want: time.Hour},
		"another reason instead": {change: func(b *bubble) {
			b.updateSlice(sliceOf(1, taint("hot", seconds(0))))
			deleteRule(b)
		}, want: 30*time.Second + 5*time.Millisecond},
		"one of two reasons": {with: []runtime.Object{ruleOn("rule", "gpu-0", seconds(0)), ruleOn("second", "gpu-0", seconds(0))},
			change: deleteRule, want: 30 * time.Second},
		"unchanged": {change: func(*bubble) {}, want: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			options := full
			options.Client = slowPods{verb: "delete", after: 30 * time.Second}
			objects := append(both(podOn("waits", "pod", "gpu-0")), sliceOf(1))
			for i := range 8 { // as many as workers
				objects = append(objects, both(podOn(slowNamespace, fmt.Sprint("pod-", i), "gpu-0"))...)
			}
			inBubble(t, options, append(objects, test.with...), func(b *bubble) {
				if test.with == nil {
					b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
				}
				b.pass(time.Second)
				test.change(b)
				b.pass(2 * time.Hour)
				if got := b.deleted["waits/pod"]; got != test.want {
					t.Errorf("deleted after %s, want %s (zero: never)", got, test.want)
				}
			})
		})
	}
}

// TestCancelledBeforeTheDeletion: a pod whose eviction is cancelled while the API server takes its
// time to store the condition is not deleted.
func TestCancelledBeforeTheDeletion(t *testing.T) {
	options := full
	options.Client = slowPods{verb: "patch", after: 30 * time.Second}
	inBubble(t, options, append(both(podOn(slowNamespace, "pod", "gpu-0")), sliceOf(1)), func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Second)
		b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule", metav1.DeleteOptions{}))
		b.pass(time.Hour)
		b.expect(nil)
		b.createRule(ruleOn("again", "gpu-0", seconds(3601)))
		b.pass(time.Second)
		b.expect(deletions{"slow/pod": 3601 * time.Second})
	})
}

// TestRuleIsGoneBeforeTheDecision: a pod is not deleted for a rule that the view no longer has, also while the decision
// about that pod waits for those about others.
func TestRuleIsGoneBeforeTheDecision(t *testing.T) {
	options := full
	options.Client = slowPods{verb: "patch", after: 30 * time.Second}
	// A decision that takes long stands for those about thousands of pods.
	options.Logger = funcr.New(func(_, text string) {
		if strings.Contains(text, "Planned") && strings.Contains(text, "many") {
			<-time.After(time.Hour)
		}
	}, funcr.Options{Verbosity: 1})
	objects := append(both(podOn(slowNamespace, "pod", "gpu-0")), both(podOn("ns", "many", "gpu-1"))...)
	inBubble(t, options, append([]runtime.Object{sliceOf(1)}, objects...), func(b *bubble) {
		b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
		b.pass(time.Second)
		b.createRule(ruleOn("other", "gpu-1", seconds(1)))
		b.pass(time.Second)
		b.do(nil, b.ResourceV1().DeviceTaintRules().Delete(b.Context(), "rule", metav1.DeleteOptions{}))
		b.pass(time.Minute)
		if at, deleted := b.deleted["slow/pod"]; deleted {
			b.Errorf("deleted after %s, 28 s after its rule", at)
		}
		b.pass(2 * time.Hour)
	})
}
