package evictor

import (
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestWronglyGone: an answer that a pod is gone, or another one, is not final while the
// cache has the pod. An admission webhook can answer so, or a stale API server.
func TestWronglyGone(t *testing.T) {
	resource := corev1.Resource("pods")
	for name, tt := range map[string]struct {
		verb string
		err  error
	}{
		"404 to the condition": {"patch", apierrors.NewNotFound(resource, "pod")},
		"409 to the condition": {"patch", apierrors.NewConflict(resource, "pod", nil)},
		"404 to the deletion":  {"delete", apierrors.NewNotFound(resource, "pod")},
		"409 to the deletion":  {"delete", apierrors.NewConflict(resource, "pod", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			pod, claim := podOn("ns", "pod", "gpu-0")
			inBubble(t, full, []runtime.Object{sliceOf(1), pod, claim}, func(b *bubble) {
				var calls atomic.Int32
				b.PrependReactor(tt.verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					return calls.Add(1) <= 3, nil, tt.err
				})
				b.createRule(ruleOn("rule", "gpu-0", seconds(0)))
				b.pass(time.Second / 2)
				if got, want := b.controller.tally("rule"), (tally{Pending: 1, Namespaces: 1}); got != want || calls.Load() != 1 {
					t.Errorf("counted %+v after %d calls, want %+v", got, calls.Load(), want)
				}
				b.pass(time.Minute)
				b.expect(deletions{"ns/pod": 3 * time.Second})
				if got := b.controller.tally("rule"); got != (tally{Evicted: 1}) {
					t.Errorf("counted %+v", got)
				}
			})
		})
	}
}
