package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// An Event is a line of what happened to a device.
type Event struct {
	// Time is the zero time for what began before it is known when.
	Time time.Time
	// What happened, by whom and why; By and Why can be empty.
	What, By, Why string
	// Holder is true for what is about a holder.
	Holder bool
}

// Timeline returns what happened to a device, the oldest first. What ended before since is left out.
func (r *Record) Timeline(since time.Time) (all []Event) {
	for i := range r.Entries {
		all = append(all, r.Entries[i].events()...)
	}
	for i := range r.Holders {
		all = append(all, r.Holders[i].events()...)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time), compareHolders(a, b)) })
	if since.IsZero() {
		return all
	}
	return slices.DeleteFunc(all, func(e Event) bool { return e.Time.Before(since) && !e.standing(r) })
}

// compareHolders puts what is done to a device before what its holders do.
func compareHolders(a, b Event) int {
	switch {
	case a.Holder == b.Holder:
		return 0
	case b.Holder:
		return -1
	}
	return 1
}

// standing reports whether an event is the begin of what has not ended.
func (e Event) standing(r *Record) bool {
	return slices.ContainsFunc(r.Entries, func(o Entry) bool { return o.open() && e.What == o.began() && e.Time.Equal(o.Begin) }) ||
		slices.ContainsFunc(r.Holders, func(h Holder) bool { return h.Until.IsZero() && e.What == h.began() && e.Time.Equal(h.Since) })
}

func (e *Entry) began() string {
	switch e.Kind {
	case Taint:
		if e.Times > 1 {
			return fmt.Sprintf("taint %s added (%d times)", e.Name, e.Times)
		}
		return "taint " + e.Name + " added"
	case Drain:
		return "drain " + e.Name + " created"
	}
	if e.Times > 1 {
		return fmt.Sprintf("reaction %s began (%d times)", e.Name, e.Times)
	}
	return "reaction " + e.Name + " began"
}

func (e *Entry) events() (all []Event) {
	name := string(e.Kind) + " " + e.Name
	all = append(all, Event{Time: e.Begin, What: e.began(), By: cmp.Or(e.By, e.Source), Why: e.why()})
	cause := e.Reason
	for _, step := range e.Steps {
		why := step.Message
		if step.Cause != "" && step.Cause != cause {
			cause = step.Cause
			why = strings.TrimSuffix(cause+", "+why, ", ")
		}
		what := name + ": " + step.State
		if step.State == stateChanged {
			what = name + " changed"
		}
		all = append(all, Event{Time: step.Time, What: what, By: step.By, Why: why})
	}
	if e.CutSteps > 0 {
		all = append(all, Event{Time: e.last(), What: name + ": " + plural.Of(e.CutSteps, "step") + " left out"})
	}
	switch {
	case e.open():
	case e.Unpublished:
		all = append(all, Event{Time: e.End, What: name + " ended", Why: "the device is no longer published"})
	default:
		end := map[Kind]string{Taint: "removed", Drain: "deleted", Reaction: "ended"}[e.Kind]
		all = append(all, Event{Time: e.End, What: name + " " + end})
	}
	return all
}

// Text names a holder with its pods.
func (h *Holder) Text() string {
	text := h.Namespace + "/" + h.Claim
	if len(h.Pods) == 0 {
		return text
	}
	pods := "pod "
	if len(h.Pods)+h.MorePods > 1 {
		pods = "pods "
	}
	text += " (" + pods + strings.Join(h.Pods, ", ")
	if h.MorePods > 0 {
		text += fmt.Sprintf(" and %d more", h.MorePods)
	}
	return text + ")"
}

func (h *Holder) began() string { return "held by " + h.Text() }

func (h *Holder) events() []Event {
	all := []Event{{Time: h.Since, What: h.began(), By: h.Owner, Holder: true}}
	if !h.Until.IsZero() {
		all = append(all, Event{Time: h.Until, What: "released by " + h.Text(), By: h.Owner, Holder: true})
	}
	return all
}

// Notes are sentences about what the record does not have.
func (r *Record) Notes() (notes []string) {
	if r.CutEntries > 0 {
		notes = append(notes, fmt.Sprintf("%s left out: at most the last %d are kept", wasWere(r.CutEntries, "older entry", "older entries"), MaxEntries))
	}
	if r.CutHolders > 0 {
		notes = append(notes, fmt.Sprintf("%s left out: at most the last %d are kept", wasWere(r.CutHolders, "older holder", "older holders"), MaxHolders))
	}
	if len(r.Holders) < MaxHolders && !r.HoldersSince.IsZero() {
		notes = append(notes, "holders before "+r.HoldersSince.Format(time.RFC3339)+" can be missing: the controller remembers them since then")
	}
	return notes
}

func wasWere(n int, one, many string) string {
	if n == 1 {
		return "1 " + one + " was"
	}
	return fmt.Sprintf("%d %s were", n, many)
}

// Taken is for how long devices had a taint with the effect NoSchedule or NoExecute between two
// times, all together. A taint that returns within ten minutes counts without a break.
func (s *Store) Taken(since, until time.Time, keep func(*Record) bool) (sum time.Duration) {
	for r := range s.Records {
		if keep == nil || keep(r) {
			sum += r.taken(since, until)
		}
	}
	return sum
}

func (r *Record) taken(since, until time.Time) (sum time.Duration) {
	at := since                // what is before is counted
	for i := range r.Entries { // by their begin
		e := &r.Entries[i]
		if e.Kind != Taint || e.Effect != "NoSchedule" && e.Effect != "NoExecute" {
			continue
		}
		begin, end := later(e.Begin, at), until
		if !e.open() && e.End.Before(until) {
			end = e.End
		}
		if end.After(begin) {
			sum += end.Sub(begin)
			at = end
		}
	}
	return sum
}

// After returns a record without what ended before a time.
func (r *Record) After(since time.Time) *Record {
	kept := *r
	old := func(end time.Time) bool { return !end.IsZero() && end.Before(since) }
	kept.Entries = slices.DeleteFunc(slices.Clone(r.Entries), func(e Entry) bool { return old(e.End) })
	kept.Holders = slices.DeleteFunc(slices.Clone(r.Holders), func(h Holder) bool { return old(h.Until) })
	return &kept
}
