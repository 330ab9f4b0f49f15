package devicedrain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const year = 365 * 24 * 3600

// TestTerminatesSlowly: a pod that is terminating and keeps its device for long blocks the drain, and
// counts for the limits. After a deadline with Delete it is deleted again, once, with 30 s.
func TestTerminatesSlowly(t *testing.T) {
	evicted := func(seconds int64) func(*world, *corev1.Pod) {
		return func(_ *world, p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	for name, tt := range map[string]struct {
		prepare func(w *world, p *corev1.Pod)
		action  v1alpha1.DeadlineAction
		// blocked is what the condition says before the deadline, later long after it.
		blocked, message, later string
		again                   int
	}{
		"a year":         {evicted(year), v1alpha1.DeadlineKeep, "Blocked=True TerminatingSlowly", "ends in more than an hour", "Blocked=True TerminatingSlowly", 0},
		"a year, Delete": {evicted(year), v1alpha1.DeadlineDelete, "Blocked=True TerminatingSlowly", "--grace-period=30", "Drained=True Drained", 1},
		"a year, deleted by its author": {func(w *world, p *corev1.Pod) { w.terminate(p, new(int64(year))) },
			v1alpha1.DeadlineDelete, "Blocked=True TerminatingSlowly", "", "Drained=True Drained", 1},
		"a year, and a budget": {func(w *world, p *corev1.Pod) {
			evicted(year)(w, p)
			w.budget("slow", "slow", 1)
		}, v1alpha1.DeadlineDelete, "Blocked=True BudgetBlocked", "", "Drained=True Drained", 1},
		"half an hour":       {evicted(1800), v1alpha1.DeadlineDelete, "Blocked=False NotBlocked", "", "Drained=True Drained", 0},
		"a node that is off": {func(w *world, p *corev1.Pod) { w.grace = 1000 * time.Hour }, v1alpha1.DeadlineKeep, "Blocked=True TerminatingSlowly", "ended more than 10 minutes ago", "Blocked=True TerminatingSlowly", 0},
		"finished": {func(w *world, p *corev1.Pod) {
			w.terminate(p, new(int64(year)))
			p.Status.Phase = corev1.PodSucceeded
		}, v1alpha1.DeadlineDelete, "Blocked=False NotBlocked", "", "Drained=False PodsRemain", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, func(s *v1alpha1.DeviceDrainSpec) {
				s.MaxPerNode = new(int32(1))
				s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: 15 * time.Minute}, Action: tt.action}
			})
			slow := w.pod("slow", nil, 0)
			w.pod("web", nil, 1).Spec.Priority = new(int32(1))
			tt.prepare(w, slow)
			w.run(14*time.Minute, never)
			w.expect(tt.blocked)
			if message := w.condition("Blocked").Message; !strings.Contains(message, tt.message) {
				t.Errorf("message %q", message)
			}
			if n := w.drain.Status.Counts; slow.DeletionTimestamp != nil && (len(w.times) > 1 || n.Leaving+n.Blocked != 1 || n.Waiting != 1) {
				t.Errorf("%d pods evicted with one at a time, counts %+v", len(w.times), n)
			}
			w.run(40*time.Minute, never)
			w.expect(tt.later)
			if w.again[slow.Name] != tt.again {
				t.Errorf("deleted again %d times, want %d", w.again[slow.Name], tt.again)
			}
		})
	}
}

// TestDeletedAgainInEveryCall kills the controller before and after each of its calls, or shows it late
// what its calls did: a pod that terminates slowly is deleted again once, and counted once.
func TestDeletedAgainInEveryCall(t *testing.T) {
	calls := 1
	for at := 0; at <= calls; at++ {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d, before %t", at, before), func(t *testing.T) {
				inPlane(t, func(p *plane) {
					if p.killAt, p.killBefore = at, before; at == 0 {
						p.lag = 2500 * time.Millisecond // after a restart, what is listed is current
					}
					p.do(func() {
						pod := p.pod("web", 0, "").DeepCopy()
						pod.Spec.TerminationGracePeriodSeconds = new(int64(year))
						p.storePod(pod)
					})
					p.drain("firmware", 1, func(s *v1alpha1.DeviceDrainSpec) {
						s.EvictionsPerMinute = new(int32(600))
						s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Minute}, Action: v1alpha1.DeadlineDelete}
					})
					p.pass(50 * time.Second)
					p.expect("firmware", "Blocked=True TerminatingSlowly")
					p.pass(3 * time.Minute)
					p.expect("firmware", "Drained=True Drained")
					order, seconds := p.went()
					if n := p.get("firmware").Status.Counts; n.Evicted != 1 || n.Deleted != 1 || len(order) != 2 || seconds[1] < 60 {
						t.Errorf("%v: removed at %v, counts %+v", p.calls, seconds, n)
					}
					if at == 0 {
						calls = len(p.calls)
					}
					p.lag = 0
				})
			})
		}
	}
}
