package devicedrain_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// clockAt is a time of day after the beginning of a world.
func clockAt(after time.Duration) string { return begin.UTC().Add(after).Format("15:04") }

// TestWindow: the drain cordons at once, evicts when the window opens, stops when it closes, and
// goes on the next day.
func TestWindow(t *testing.T) {
	w := newWorld(t, 3, func(s *v1alpha1.DeviceDrainSpec) {
		s.EvictionsPerMinute = new(int32(1))
		s.Windows = []v1alpha1.Window{{From: clockAt(10 * time.Minute), To: clockAt(12 * time.Minute)}}
	})
	for i := range 3 {
		w.pod("web", nil, i)
	}
	w.run(9*time.Minute, never)
	w.expect("Cordoned=True Cordoned", "Draining=False OutsideWindow", "Drained=False PodsRemain")
	if message := w.condition("Draining").Message; !strings.HasPrefix(message, "the next window opens at ") || len(w.times) > 0 {
		t.Errorf("evicted at %v; %s", w.times, message)
	}
	w.run(15*time.Minute, never)
	w.expect("Draining=False OutsideWindow", "Drained=False PodsRemain")
	if len(w.times) != 2 {
		t.Errorf("evicted at %v, want two pods in two minutes", w.times)
	}
	w.pass(23 * time.Hour)
	w.run(2*time.Hour, never)
	w.expect("Drained=True Drained")
	if last := w.times[len(w.times)-1].Sub(begin); len(w.times) != 3 || last < 24*time.Hour {
		t.Errorf("evicted at %v, want the last the next day", w.times)
	}
}

// TestDeadlineOutsideWindow: no pod is deleted outside of a window.
func TestDeadlineOutsideWindow(t *testing.T) {
	w := newWorld(t, 1, func(s *v1alpha1.DeviceDrainSpec) {
		s.Windows = []v1alpha1.Window{{From: clockAt(2 * time.Hour), To: clockAt(3 * time.Hour)}}
		s.Deadline = &v1alpha1.DrainDeadline{After: &metav1.Duration{Duration: time.Minute}, Action: v1alpha1.DeadlineDelete}
	})
	w.pod("web", nil, 0)
	w.budget("web", "web", 1)
	w.run(time.Hour, never)
	w.expect("Draining=False OutsideWindow")
	if len(w.times) > 0 {
		t.Errorf("deleted at %v", w.times)
	}
	w.run(4*time.Hour, never)
	w.expect("Drained=True Drained")
	if w.drain.Status.Counts.Deleted != 1 {
		t.Errorf("%+v", w.drain.Status.Counts)
	}
}

// TestWindowNotValid: a drain whose window cannot be read evicts no pods, and says why.
func TestWindowNotValid(t *testing.T) {
	w := newWorld(t, 1, func(s *v1alpha1.DeviceDrainSpec) {
		s.Windows = []v1alpha1.Window{{From: "00:00", To: "00:00", TimeZone: "Nowhere/City"}}
	})
	w.pod("web", nil, 0)
	w.run(time.Hour, never)
	w.expect("Draining=False WindowNotValid")
	if message := w.condition("Draining").Message; len(w.times) > 0 || !strings.Contains(message, `spec.windows[0].timeZone: "Nowhere/City": must be`) {
		t.Errorf("evicted at %v: %s", w.times, message)
	}
}
