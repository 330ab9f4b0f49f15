package oracle

import (
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// An Outcome is what the oracle says about a pod.
type Outcome string

const (
	// Evicted is a pod that had to be evicted, and was, once and in time.
	Evicted Outcome = "evicted"
	// Kept is a pod that must not be evicted, and was not.
	Kept Outcome = "kept"
	// Undecided is a pod of which both outcomes are right.
	Undecided Outcome = "undecided"
	// Missed is a pod that had to be evicted, and was not, or was too late.
	Missed Outcome = "missed"
	// Wrong is a pod that was evicted without a reason, or too early.
	Wrong Outcome = "wrong"
	// Twice is a pod that was evicted more than once.
	Twice Outcome = "twice"
)

// A Verdict is an outcome with its reasons.
type Verdict struct {
	Outcome Outcome
	Reasons []string
}

func (v Verdict) String() string {
	return string(v.Outcome) + ": " + strings.Join(v.Reasons, "; ")
}

// A window is what one taint means for a pod: it may be evicted from one time until
// another, and must be evicted by a deadline, unless there is none.
type window struct {
	from, until, deadline time.Time
	reason                string
}

// Check says whether the evictions of a pod are right: the times when the API server received
// the deletions that it carried out.
func (h *History) Check(pod *Pod, evictions []time.Time) Verdict {
	windows := h.windows(pod)
	v := Verdict{Outcome: Kept}
	may := len(evictions) == 0 && len(windows) > 0
	var deadline time.Time
	for _, w := range windows {
		v.Reasons = append(v.Reasons, w.reason)
		if !w.deadline.IsZero() && (deadline.IsZero() || w.deadline.Before(deadline)) {
			deadline = w.deadline
		}
		if len(evictions) > 0 && !evictions[0].Before(w.from) && !evictions[0].After(w.until) {
			may = true
		}
	}
	for _, at := range evictions {
		v.Reasons = append(v.Reasons, "evicted at "+clock(at))
	}
	switch {
	case len(evictions) > 1:
		v.Outcome = Twice
	case len(evictions) == 1 && !may:
		v.Outcome = Wrong
	case !deadline.IsZero() && (len(evictions) == 0 || evictions[0].After(deadline)):
		v.Outcome = Missed
	case !deadline.IsZero():
		v.Outcome = Evicted
	case may:
		v.Outcome = Undecided
	}
	return v
}

func (h *History) windows(pod *Pod) (all []window) {
	for i := range pod.Uses {
		for j := range h.Standings {
			if w, found := h.window(pod, &pod.Uses[i], &h.Standings[j]); found {
				all = append(all, w)
			}
		}
	}
	return all
}

func (h *History) window(pod *Pod, use *Use, s *Standing) (w window, found bool) {
	if s.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute || !selects(s.Selector, use.Device) {
		return w, false
	}
	tolerated := tolerate(use.Tolerations, s.Taint)
	if tolerated.forever {
		return w, false
	}
	begin, end := last(pod.Begin, use.Begin, s.Begin), h.earliest(pod.End, use.End, s.End)
	if tolerated.timed {
		added := s.Taint.TimeAdded.Time
		begin.Earliest = latest(begin.Earliest, added.Add(tolerated.least))
		begin.Latest = latest(begin.Latest, added.Add(tolerated.most))
	}
	if begin.Earliest.After(end.Latest) {
		return w, false
	}
	w = window{from: begin.Earliest, until: Undisturbed(end.Latest, h.Observation, h.Stale)}
	if deadline := h.Settled(begin.Latest); !deadline.After(end.Earliest) {
		w.deadline = deadline
	}
	w.reason = fmt.Sprintf("%s taints %s with %s=%s, may from %s until %s", s.Source, use.Device, s.Taint.Key, s.Taint.Value, clock(w.from), clock(w.until))
	if !w.deadline.IsZero() {
		w.reason += ", must by " + clock(w.deadline)
	}
	return w, true
}

func (d Device) String() string { return d.Driver + "/" + d.Pool + "/" + d.Name }

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
