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
	ledger ledger
	// grace is how long to wait after a pod is due.
	grace time.Duration
}

func newCases(grace time.Duration) *cases {
	return &cases{byUID: map[types.UID]*podCase{}, byName: map[types.NamespacedName]types.UID{}, grace: grace}
}

// change says what a new verdict means for a pod.
type change int

const (
	unchanged change = iota
	planned
	cancelled
)

// decided takes a new decision about a pod into account.
func (cs *cases) decided(pod types.NamespacedName, uid types.UID, verdict, plan Verdict, now time.Time) change {
	if had, ok := cs.byName[pod]; ok && had != uid {
		cs.gone(pod)
	}
	c := cs.byUID[uid]
	switch {
	case c == nil && !verdict.Evict():
		return unchanged
	case c == nil:
		c = &podCase{pod: pod, uid: uid, place: -1}
		cs.byUID[uid], cs.byName[pod] = c, uid
	case c.stage == done:
		return unchanged
	case c.verdict.Equal(verdict) && c.plan.Equal(plan):
		return unchanged
	}
	return cs.replan(c, verdict, plan, now)
}

func (cs *cases) replan(c *podCase, verdict, plan Verdict, now time.Time) change {
	had := c.plan.Evict()
	cs.ledger.add(c, c.plan, -1)
	cs.ledger.add(c, plan, +1)
	c.verdict, c.plan = verdict, plan
	if !plan.Evict() {
		cs.agenda.drop(c)
		c.failures = 0
		c.since = time.Time{}
		if !verdict.Evict() && c.stage != acting {
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
		cs.agenda.put(c, c.due().Add(cs.grace))
	}
	return planned
}

// gone forgets the pod of that name.
func (cs *cases) gone(pod types.NamespacedName) {
	if c := cs.byUID[cs.byName[pod]]; c != nil {
		if c.stage != done {
			cs.ledger.add(c, c.plan, -1)
		}
		cs.drop(c)
	}
}

func (cs *cases) drop(c *podCase) {
	cs.agenda.drop(c)
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

// postpone puts a pod back that was taken, until a time.
func (cs *cases) postpone(c *podCase, until time.Time) {
	if cs.byUID[c.uid] != c {
		return
	}
	c.stage = waiting
	if !c.plan.Evict() {
		if !c.verdict.Evict() {
			cs.drop(c)
		}
		return
	}
	cs.agenda.put(c, until)
}

// evicted notes that a pod that was taken has been deleted by us, for the reasons of
// plan. It stays known until it is gone, so that nothing is done or counted twice.
func (cs *cases) evicted(c *podCase, plan Verdict) {
	cs.ledger.evicted(plan)
	if cs.byUID[c.uid] != c {
		return
	}
	cs.ledger.add(c, c.plan, -1)
	c.plan, c.verdict, c.stage = Verdict{}, Verdict{}, done
}

// left notes that a pod that was taken is gone or terminating without us.
func (cs *cases) left(c *podCase) {
	if cs.byUID[c.uid] == c {
		cs.ledger.add(c, c.plan, -1)
		cs.drop(c)
	}
}
