package oracle

import (
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// A Moment is the time of a write: not before the request and not after the answer. The
// zero value is never.
type Moment struct{ Earliest, Latest time.Time }

// Never reports whether it did not happen.
func (m Moment) Never() bool { return m.Earliest.IsZero() }

// A Device is named as in an allocation.
type Device struct{ Driver, Pool, Name string }

// A Standing is a taint, from the write that made it until the write that removed or
// changed it.
type Standing struct {
	// Source is the object that has the taint, for messages.
	Source string
	// Selector selects the devices, as in a DeviceTaintRule; nil selects none.
	Selector *resourceapi.DeviceTaintSelector
	// Taint has the time that the API server stores.
	Taint resourceapi.DeviceTaint
	Begin Moment
	End   Moment
}

// A Use is a device that a claim of a pod holds, and the tolerations of its request.
type Use struct {
	Device      Device
	Tolerations []resourceapi.DeviceToleration
	// Begin is the time when the claim is allocated and reserved for the pod, End the time
	// when it is released.
	Begin, End Moment
}

// A Pod is bound to a node when it is created. End is the time when a user other than the
// controller deleted it.
type Pod struct {
	Name  string
	Uses  []Use
	Begin Moment
	End   Moment
}

// A Span is a period of a disturbance.
type Span struct{ From, To time.Time }

// A History is what happened in a cluster until a time.
type History struct {
	Standings []Standing
	// Unled are the periods in which there may be no leader, and Stale those in which the
	// leader may not observe changes.
	Unled, Stale []Span
	// Work is the time that an undisturbed leader has for an eviction, and Observation the
	// time that it has to observe a change.
	Work, Observation time.Duration
	Until             time.Time
}

// Undisturbed returns the time when so much time without a disturbance has passed.
func Undisturbed(from time.Time, d time.Duration, spans []Span) time.Time {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b Span) int { return a.From.Compare(b.From) })
	end := from.Add(d)
	for _, s := range sorted {
		if s.From.After(end) {
			break
		}
		if begin := latest(s.From, from); s.To.After(begin) {
			end = end.Add(s.To.Sub(begin))
			from = s.To
		}
	}
	return end
}

// Settled returns the time when an undisturbed leader has evicted what is due at a time.
func (h *History) Settled(due time.Time) time.Time { return Undisturbed(due, h.Work, h.Unled) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier end; an end that never comes is the end of the history.
func (h *History) earliest(ends ...Moment) Moment {
	first := Moment{h.Until, h.Until}
	for _, m := range ends {
		if m.Never() {
			continue
		}
		if m.Earliest.Before(first.Earliest) {
			first.Earliest = m.Earliest
		}
		if m.Latest.Before(first.Latest) {
			first.Latest = m.Latest
		}
	}
	return first
}

func last(begins ...Moment) (m Moment) {
	for _, b := range begins {
		m = Moment{latest(m.Earliest, b.Earliest), latest(m.Latest, b.Latest)}
	}
	return m
}
