package evictor

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// cases are all pods with a verdict, the agenda and the counts, kept consistent. It
// has no lock and makes no call.
type cases struct {
	byUID  map[types.UID]*podCase
	byName map[types.NamespacedName]types.UID
	agenda agenda
	paused map[*podCase]struct{}
	ledger ledger
	// states counts the pods by their state.
	states map[string]int
}

func newCases() *cases {
	return &cases{
		byUID: map[types.UID]*podCase{}, byName: map[types.NamespacedName]types.UID{},
		paused: map[*podCase]struct{}{}, states: map[string]int{},
	}
}

// change says what a new verdict means for a pod.
type changed int

const (
	unchanged changed = iota
	planned
	cancelled
)

// A decision is what was decided about one pod.
type decision struct {
	verdict Verdict
	plan    plan
	would   Verdict
	// ending says that the pod is being deleted.
	ending bool
}

func (d decision) idle() bool { return !d.verdict.Evict() && !d.would.Evict() }

// decided takes a new decision about a pod into account.
func (cs *cases) decided(pod types.NamespacedName, uid types.UID, d decision, now time.Time) changed {
	if had, ok := cs.byName[pod]; ok && had != uid {
		cs.gone(pod, now)
	}
	c := cs.byUID[uid]
	switch {
	case c == nil && d.idle():
		return unchanged
	case c == nil:
		c = &podCase{pod: pod, uid: uid, place: -1}
		cs.byUID[uid], cs.byName[pod] = c, uid
	case c.stage == done:
		return unchanged
	}
	c.ending = d.ending
	switch {
	case c.ending && c.stage != acting && c.asked.Evict():
		cs.settle(c)
		return unchanged
	case c.verdict.Equal(d.verdict) && c.plan.equal(d.plan) && c.would.Equal(d.would):
		return unchanged
	}
	return cs.replan(c, d, now)
}

func (cs *cases) replan(c *podCase, d decision, now time.Time) changed {
	had := c.plan.Evict()
	cs.count(c, func() {
		cs.ledger.add(c, d.plan, +1, now)
		cs.out(c, now)
		cs.ledger.would(c, d.would, +1)
		cs.ledger.would(c, c.would, -1)
		c.verdict, c.plan, c.would = d.verdict, d.plan, d.would
		if c.seen.IsZero() && c.verdict.Evict() {
			c.seen = now
		}
		cs.leave(c)
	})
	if !c.plan.Evict() {
		c.failures = 0
		c.since = time.Time{}
		if c.idle() && c.stage != acting {
			cs.drop(c)
		}
		if had {
			return cancelled
		}
		return unchanged
	}
	if c.since.IsZero() {
		c.since = now
	}
	if c.stage == waiting {
		cs.agenda.put(c, c.plan.begin(c.since))
	}
	return planned
}

// count keeps the states right while f changes a case.
func (cs *cases) count(c *podCase, f func()) {
	had := c.state()
	f()
	if has := c.state(); has != had {
		change(cs.states, had, -1)
		change(cs.states, has, +1)
	}
}

// out counts the plan of a case out. A pod that a worker has goes on counting for the
// waves: it may be deleted already.
func (cs *cases) out(c *podCase, now time.Time) {
	if c.stage == acting {
		cs.ledger.pend(c, c.plan, -1)
	} else {
		cs.ledger.add(c, c.plan, -1, now)
	}
}

// leave takes a case off the agenda and from those that are paused.
func (cs *cases) leave(c *podCase) {
	cs.agenda.drop(c)
	if c.stage == paused {
		delete(cs.paused, c)
		c.stage = waiting
	}
}

// gone forgets the pod of that name.
func (cs *cases) gone(pod types.NamespacedName, now time.Time) {
	if c := cs.byUID[cs.byName[pod]]; c != nil {
		cs.left(c, now)
	}
}

// left notes that a pod is gone or terminating without us.
func (cs *cases) left(c *podCase, now time.Time) {
	if cs.byUID[c.uid] != c {
		return
	}
	if c.stage != acting && c.asked.Evict() {
		cs.settle(c)
	}
	cs.count(c, func() {
		cs.out(c, now)
		cs.ledger.would(c, c.would, -1)
		cs.leave(c)
		c.verdict, c.plan, c.would = Verdict{}, plan{}, Verdict{}
	})
	cs.drop(c)
}

func (cs *cases) drop(c *podCase) {
	cs.leave(c)
	delete(cs.byUID, c.uid)
	if cs.byName[c.pod] == c.uid {
		delete(cs.byName, c.pod)
	}
}

// take hands out the next pod whose time has come.
func (cs *cases) take(now time.Time) *podCase {
	c := cs.agenda.take(now)
	if c != nil {
		c.stage = acting
	}
	return c
}

// pause puts a pod aside that was taken.
func (cs *cases) pause(c *podCase) {
	cs.count(c, func() { c.stage = paused })
	cs.paused[c] = struct{}{}
}

// resume puts the pods back that were put aside: what paused them may be over.
func (cs *cases) resume() {
	for c := range cs.paused {
		cs.count(c, func() { c.stage = waiting })
		cs.agenda.put(c, c.plan.begin(c.since))
	}
	clear(cs.paused)
}

// settle counts a pod that goes, after a deletion by us that had no answer.
func (cs *cases) settle(c *podCase) {
	cs.count(c, func() { cs.leave(c) })
	cs.over(c)
}

// unanswered puts a pod back that was taken, whose deletion for the reasons of p may have
// been carried out.
func (cs *cases) unanswered(c *podCase, p Verdict, until time.Time) {
	c.asked = p
	cs.postpone(c, until)
}

// postpone puts a pod back that was taken, until a time.
func (cs *cases) postpone(c *podCase, until time.Time) {
	known := cs.byUID[c.uid] == c
	if (c.ending || !known) && c.asked.Evict() {
		cs.over(c)
		return
	}
	if !known {
		return
	}
	c.stage = waiting
	if !c.plan.Evict() {
		if c.idle() {
			cs.drop(c)
		}
		return
	}
	cs.agenda.put(c, until)
}

// evicted notes that a pod that was taken has been deleted by us, for the reasons of p.
func (cs *cases) evicted(c *podCase, p Verdict) {
	c.asked = Verdict{}
	cs.ledger.evicted(p)
	cs.over(c)
}

// over notes that there is nothing more to do about a pod that was taken. It stays known
// until we are told that it is gone, so that nothing is done or counted twice. If an
// earlier deletion by us had no answer it was that one.
func (cs *cases) over(c *podCase) {
	if asked := c.asked; asked.Evict() {
		cs.evicted(c, asked)
		return
	}
	if cs.byUID[c.uid] != c {
		return
	}
	cs.count(c, func() {
		cs.ledger.pend(c, c.plan, -1)
		cs.ledger.would(c, c.would, -1)
		c.plan, c.verdict, c.would, c.stage = plan{}, Verdict{}, Verdict{}, done
	})
}
