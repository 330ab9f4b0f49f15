package devicedrain_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// TestBudgetWithinBatch: the pods that are evicted together spend a budget once each.
func TestBudgetWithinBatch(t *testing.T) {
	w := newWorld(t, 4, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new(int32(600)) })
	for i := range 4 {
		w.pod("web", nil, i)
	}
	w.budget("web", "web", 2)
	for w.drain.Status.CompletionTime == nil && w.since() < time.Minute {
		d := w.step(never)
		if len(d.Evict) == 0 {
			w.pass(time.Second)
			continue
		}
		if len(d.Evict) != 2 {
			t.Errorf("%d pods are evicted at once, want 2", len(d.Evict))
		}
		return
	}
	t.Error("no pod is evicted")
}

// TestRateCountsFromTheEviction: a process stops between its decision and the eviction, and is killed
// or not. The next pod is evicted an interval after the eviction.
func TestRateCountsFromTheEviction(t *testing.T) {
	for _, killed := range []bool{false, true} {
		w := newWorld(t, 2, func(s *v1alpha1.DeviceDrainSpec) { s.EvictionsPerMinute = new(int32(6)) })
		w.pod("web", nil, 0)
		w.pod("web", nil, 1)
		w.run(time.Minute, func(phase string) bool {
			if phase == "before eviction" && len(w.times) == 0 {
				w.pass(5 * time.Second)
			}
			return killed && phase == "after eviction" && len(w.times) == 1
		})
		if len(w.times) != 2 || w.times[1].Sub(w.times[0]) < 10*time.Second {
			t.Errorf("killed %t: evicted at %v, want 10 s in between", killed, w.times)
		}
	}
}

// TestPriorityFirst: the pods of the lowest priority leave first; no priority is 0.
func TestPriorityFirst(t *testing.T) {
	w := newWorld(t, 3, nil)
	high, none, low := w.pod("a", nil, 0), w.pod("b", nil, 1), w.pod("c", nil, 2)
	high.Spec.Priority, low.Spec.Priority = new(int32(1000)), new(int32(-1))
	order := drain.Decide(w.input()).Order
	if len(order) != 3 || order[0].UID != low.UID || order[1].UID != none.UID || order[2].UID != high.UID {
		t.Errorf("order %v", order)
	}
}

// TestPausedAtDeadline: a drain that is paused when its deadline comes deletes no pod, and
// shows what blocks each.
func TestPausedAtDeadline(t *testing.T) {
	w := newWorld(t, 1, func(s *v1alpha1.DeviceDrainSpec) {
		s.Paused = true
		s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Minute}, Action: v1alpha1.DeadlineDelete}
	})
	w.pod("web", nil, 0)
	w.budget("web", "web", 1)
	w.run(2*time.Minute, never)
	w.expect("Draining=False Paused", "Blocked=True "+v1alpha1.BlockedBudget)
	if w.drain.Status.Counts.Deleted > 0 || len(w.times) > 0 {
		t.Errorf("deleted at %v", w.times)
	}
}

// TestAttemptsAreBounded: the status forgets the oldest attempts.
func TestAttemptsAreBounded(t *testing.T) {
	w := newWorld(t, 1, nil)
	claim := w.claim("shared", 0)
	w.pod("web", claim, 0)
	for i := range 600 {
		w.drain.Status.Attempts = append(w.drain.Status.Attempts, v1alpha1.DrainAttempt{
			UID: types.UID(w.uid("claim")), Count: 1, Time: metav1.NewMicroTime(begin.Add(time.Duration(i) * time.Second))})
	}
	oldest := w.drain.Status.Attempts[0].UID
	for len(w.times) == 0 && w.since() < time.Minute {
		w.step(never)
		w.pass(time.Second)
	}
	if n := len(w.drain.Status.Attempts); n != 512 || w.drain.Status.Attempts[0].UID == oldest {
		t.Errorf("%d attempts, want the latest 512", n)
	}
}

// TestSharedBudget: drains that share a PodDisruptionBudget see each other's evictions before
// its status shows them, and ask for none that it does not allow.
func TestSharedBudget(t *testing.T) {
	inPlane(t, func(p *plane) {
		p.do(func() {
			for i := range 12 {
				p.pod("web", i, "")
			}
			p.budget("web", "web", 9)
			p.lag, p.budgetLag = 1200*time.Millisecond, time.Second
			p.replace = func(*corev1.Pod) { p.pod("web", 15, "") }
		})
		for i := range 4 {
			p.drain(fmt.Sprint("rack-", i), 0, func(s *v1alpha1.DeviceDrainSpec) {
				s.EvictionsPerMinute = new(int32(600))
				for d := range 3 {
					s.Devices = append(s.Devices, v1alpha1.DeviceName{Driver: gpuDriver, Pool: "node", Device: fmt.Sprint("gpu-", 3*i+d)})
				}
			})
		}
		p.pass(3 * time.Minute)
		for i := range 4 {
			p.expect(fmt.Sprint("rack-", i), "Drained=True Drained")
		}
		if order, _ := p.went(); len(order) != 12 || p.overBudget > 0 {
			t.Errorf("%d pods evicted, %d evictions refused by the budget", len(order), p.overBudget)
		}
		p.lag, p.budgetLag = 0, 0
	})
}
