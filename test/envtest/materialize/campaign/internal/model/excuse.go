package model

import (
	"slices"
	"time"
)

// A Span is a time from From to To. A To of zero has not come.
type Span struct{ From, To time.Time }

func (s Span) covers(from, to time.Time) bool {
	return !s.From.After(from) && (s.To.IsZero() || !s.To.Before(to))
}

// A Loss is a slice that was deleted, and that its driver has created again.
type Loss struct {
	// Changed is when a slice of its pool was written last before.
	Changed time.Time
	// Deleted and Created are when the slice was deleted and created.
	Deleted, Created time.Time
}

// copying is longer than the leader needs to write the copy after a change: a second, at most every
// five seconds, on a busy machine.
const copying = 10 * time.Second

// Excused reports whether docs/patches.md excuses the values in a slice that a driver has created
// again: no webhook and no controller that knew them ran all that time, and the leader perhaps had
// not copied them. running are the times in which a replica of the webhook was ready, or one of the
// controller led, without an interruption; leading are those of controllers alone.
func Excused(l Loss, running, leading []Span) bool {
	if slices.ContainsFunc(running, func(s Span) bool { return s.covers(l.Deleted, l.Created) }) {
		return false
	}
	return !slices.ContainsFunc(leading, func(s Span) bool {
		from := l.Changed
		if s.From.After(from) {
			from = s.From
		}
		return s.covers(from, from.Add(copying)) && !from.Add(copying).After(l.Created)
	})
}
