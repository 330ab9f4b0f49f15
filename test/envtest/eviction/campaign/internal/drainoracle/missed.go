package drainoracle

import (
	"slices"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// need is how long an undisturbed leader has for all pods of a drain that exist.
func (h *History) need(d *Drain, exists func(*Pod) bool) time.Duration {
	each := time.Minute / time.Duration(d.PerMinute)
	if d.PerNamespace > 0 || d.PerNode > 0 {
		each += h.Leaving
	}
	all := sync + h.Work + each
	for _, p := range h.Pods {
		if d.covers(p) && exists(p) {
			all += each
		}
	}
	return all
}

// Settled returns the time when an undisturbed leader has done all that is due for drains at a time.
func (h *History) Settled(at time.Time, drains []*Drain) time.Time {
	last := h.done(at, h.Work)
	for _, d := range drains {
		last = latest(last, h.Due(d, at))
	}
	return last
}

// Due returns the time when an undisturbed leader has done all that is due for a drain at a time.
func (h *History) Due(d *Drain, at time.Time) time.Time {
	if !d.End.Never() || d.DryRun || d.paused() || h.end(d) != nil {
		return at
	}
	need := h.need(d, func(p *Pod) bool { return h.Left[p.UID] && !h.blocked(d, p) })
	return h.done(at, need+returns+h.Work)
}

// paused reports whether a drain is paused at the end.
func (d *Drain) paused() bool {
	return slices.ContainsFunc(d.Pauses, func(p Period) bool { return p.End.Never() })
}

// blocked reports whether something is against the removal of a pod at the end.
func (h *History) blocked(d *Drain, p *Pod) bool {
	switch {
	case d.Deadline != nil && d.Deadline.Action == Delete:
		return false
	case !p.Controlled && d.KeepsBare:
		return true
	}
	return slices.ContainsFunc(h.Budgets, func(b *Budget) bool {
		return b.Namespace == p.Namespace && b.App == p.App && b.End.Never()
	})
}

// missed checks that pods which hold a device when a drain begins are removed in time.
func (h *History) missed(v *violations) {
	for _, d := range h.Drains {
		if d.DryRun {
			continue
		}
		for _, p := range h.Pods {
			if d.covers(p) && p.Begin.Latest.Before(d.Begin.Earliest) {
				h.missedPod(v, d, p)
			}
		}
	}
}

func (h *History) missedPod(v *violations, d *Drain, p *Pod) {
	removed := h.removed(p)
	for _, free := range slices.Concat(h.evictable(d, p), h.deletable(d, p)) {
		due := h.done(free.From, h.need(d, func(p *Pod) bool {
			gone, known := h.Gone[p.UID]
			return !known || gone.After(free.From)
		}))
		if !due.After(free.To) && removed.After(due) {
			v.add(Missed, "%s is not evicted for %s by %s: nothing blocks it from %s to %s", p, d, clock(due), clock(free.From), clock(free.To))
			return
		}
	}
}

// removed is when a pod is removed or gone; the end of the history if it is not.
func (h *History) removed(p *Pod) time.Time {
	at := h.Until.Add(time.Second)
	if gone, known := h.Gone[p.UID]; known {
		at = gone
	}
	for _, r := range h.Removals {
		if r.Pod == p.UID && r.At.Before(at) {
			at = r.At
		}
	}
	return at
}

// evictable returns the periods in which nothing is against the eviction of a pod.
func (h *History) evictable(d *Drain, p *Pod) []oracle.Span {
	if !p.Controlled && d.KeepsBare {
		return nil
	}
	from, to := latest(d.Begin.Latest, p.Begin.Latest), h.first(d.End, p.End)
	if d.Deadline != nil && d.Deadline.Earliest.Before(to) {
		to = d.Deadline.Earliest
	}
	obstacles := h.obstacles(d)
	for _, b := range h.Budgets {
		if b.Namespace == p.Namespace && b.App == p.App {
			obstacles = append(obstacles, h.span(b.Period))
		}
	}
	return gaps(from, to, obstacles)
}

// deletable returns the periods after the deadline in which nothing is against the deletion of a pod.
func (h *History) deletable(d *Drain, p *Pod) []oracle.Span {
	if d.Deadline == nil || d.Deadline.Action != Delete {
		return nil
	}
	from := latest(latest(d.Begin.Latest, p.Begin.Latest), d.Deadline.Latest)
	return gaps(from, h.first(d.End, p.End), h.obstacles(d))
}

// obstacles are the periods in which a drain is paused or writes a rule again.
func (h *History) obstacles(d *Drain) (all []oracle.Span) {
	for _, p := range d.Pauses {
		all = append(all, h.span(p))
	}
	for _, t := range h.Tampered {
		if t.Drain == d.Name {
			all = append(all, oracle.Span{From: t.Earliest, To: t.Latest})
		}
	}
	return all
}

// span is the longest that a period may be.
func (h *History) span(p Period) oracle.Span {
	if p.End.Never() {
		return oracle.Span{From: p.Begin.Earliest, To: h.Until}
	}
	return oracle.Span{From: p.Begin.Earliest, To: p.End.Latest}
}

// gaps are the periods between obstacles.
func gaps(from, to time.Time, obstacles []oracle.Span) (all []oracle.Span) {
	slices.SortFunc(obstacles, func(a, b oracle.Span) int { return a.From.Compare(b.From) })
	for _, o := range append(obstacles, oracle.Span{From: to, To: to}) {
		if end := earliest(o.From, to); end.After(from) {
			all = append(all, oracle.Span{From: from, To: end})
		}
		from = latest(from, o.To)
	}
	return all
}

// ends checks that drains without pods are Drained, that drains after their deadline are Failed, and that
// no drain is Drained while a pod holds one of its devices.
func (h *History) ends(v *violations) {
	if len(h.Samples) == 0 {
		return
	}
	last := &h.Samples[len(h.Samples)-1]
	for _, d := range h.Drains {
		if ended := h.end(d); ended != nil {
			h.drained(v, d, ended.Drains[d.Name])
			continue
		}
		if !d.End.Never() || d.DryRun || d.paused() {
			continue
		}
		from := d.Begin.Latest
		for _, o := range h.obstacles(d) {
			from = latest(from, o.To)
		}
		if d.Deadline != nil && d.Deadline.Action == Fail && h.done(latest(from, d.Deadline.Latest), h.Work).Before(last.Earliest) {
			v.add(Missed, "%s is neither Drained nor Failed at %s, and its deadline was %s", d, clock(last.Earliest), clock(d.Deadline.Latest))
			continue
		}
		if free, is := h.free(d); is && h.done(latest(from, free), sync+returns+h.Work).Before(last.Earliest) {
			v.add(Missed, "%s is not Drained at %s, and its last pod is gone since %s", d, clock(last.Earliest), clock(free))
		}
	}
}

// free returns when the last pod of a drain is gone, and whether all are.
func (h *History) free(d *Drain) (at time.Time, is bool) {
	at = d.Begin.Latest
	for _, p := range h.Pods {
		if !d.covers(p) {
			continue
		}
		gone, known := h.Gone[p.UID]
		if !known {
			return at, false
		}
		at = latest(at, gone)
	}
	return at, true
}

// drained checks that no pod holds a device of a drain when it is Drained, and that the devices are free
// for a while. The time is in seconds.
func (h *History) drained(v *violations, d *Drain, s State) {
	if !s.Drained {
		return
	}
	for _, p := range h.Pods {
		gone, known := h.Gone[p.UID]
		switch {
		case !d.covers(p) || !h.observed(p.Begin).Before(s.Since):
		case !known && h.Left[p.UID], known && gone.After(s.Since.Add(time.Second+h.Flight)):
			v.add(Drained, "%s is Drained since %s, and %s holds one of its devices", d, clock(s.Since), p)
		case known && h.byAlone(d, p) && s.Since.Add(time.Second).Before(gone.Add(returns)):
			v.add(Drained, "%s is Drained since %s, and %s is gone since %s only", d, clock(s.Since), p, clock(gone))
		}
	}
}

// byAlone reports whether a pod is removed by a drain and no other.
func (h *History) byAlone(d *Drain, p *Pod) bool {
	for _, r := range h.Removals {
		if r.Pod != p.UID || r.Unanswered {
			continue
		}
		drains, _ := h.causes(p, r)
		return len(drains) == 1 && drains[0] == d
	}
	return false
}

// first returns the earlier end, or the end of the history.
func (h *History) first(ends ...oracle.Moment) time.Time {
	at := h.Until
	for _, m := range ends {
		if !m.Never() {
			at = earliest(at, m.Earliest)
		}
	}
	return at
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
