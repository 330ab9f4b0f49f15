package evictor

import (
	"cmp"
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A stage is how far the eviction of a pod has come.
type stage int

const (
	waiting stage = iota // for its time, or for nothing
	acting               // a worker has it
	paused               // until a ceiling is raised, or what exceeds it is less
	done                 // it was deleted by us, and is not gone yet
)

// A podCase is what is known about one pod that has a verdict, or was evicted.
type podCase struct {
	pod types.NamespacedName
	uid types.UID
	// verdict is the whole decision, plan the part of it that is for us to carry out,
	// would what rules with the effect None would do.
	verdict Verdict
	plan    plan
	would   Verdict
	// seen is when the verdict first had reasons, since when the plan first had.
	seen, since time.Time
	// at is when to act: the plan's time or later.
	at    time.Time
	stage stage
	// taken says that somebody else is about to end the pod.
	taken    bool
	failures int
	// asked are the reasons of a deletion by us that had no answer: it may have been
	// carried out. ending says that the pod is being deleted, by whomever.
	asked  Verdict
	ending bool
	// place is the index in the heap, -1 outside.
	place int
}

// idle says that there is nothing about the pod that has to be known.
func (c *podCase) idle() bool { return !c.verdict.Evict() && !c.would.Evict() }

// state is how metrics count the pod, empty for not at all.
func (c *podCase) state() string {
	switch {
	case c.stage == done || !c.verdict.Evict():
		return ""
	case c.stage == paused:
		return "paused"
	case c.plan.Evict():
		return "planned"
	case c.plan.held.Evict():
		return "held"
	}
	return "observed"
}

// compare orders cases as the agenda has them.
func (c *podCase) compare(d *podCase) int {
	return cmp.Or(c.at.Compare(d.at), cmp.Compare(c.uid, d.uid))
}

// agenda is a heap of cases by their time. What is taken off it is gone: there are no
// stale entries.
type agenda []*podCase

var _ heap.Interface = (*agenda)(nil)

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].compare(a[j]) < 0 }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

// Push is for container/heap alone.
func (a *agenda) Push(x any) {
	c, _ := x.(*podCase)
	c.place = len(*a)
	*a = append(*a, c)
}

// Pop is for container/heap alone.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	c := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	c.place = -1
	return c
}

// put schedules a case for a time, whether it was scheduled before or not.
func (a *agenda) put(c *podCase, at time.Time) {
	c.at = at
	if c.place < 0 {
		heap.Push(a, c)
	} else {
		heap.Fix(a, c.place)
	}
}

// drop takes a case off.
func (a *agenda) drop(c *podCase) {
	if c.place >= 0 {
		heap.Remove(a, c.place)
	}
}

// next is when the first case is to be acted on; false if there is none.
func (a agenda) next() (time.Time, bool) {
	if len(a) == 0 {
		return time.Time{}, false
	}
	return a[0].at, true
}

// take removes the first case if its time has come.
func (a *agenda) take(now time.Time) *podCase {
	if at, any := a.next(); !any || at.After(now) {
		return nil
	}
	c, _ := heap.Pop(a).(*podCase)
	return c
}
