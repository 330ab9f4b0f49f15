package evictor

import (
	"cmp"
	"container/heap"
	"time"
)

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
	a[i].place, a[j].place = int32(i), int32(j)
}

// Push is for container/heap alone.
func (a *agenda) Push(x any) {
	c, _ := x.(*podCase)
	c.place = int32(len(*a))
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
		heap.Fix(a, int(c.place))
	}
}

// drop takes a case off.
func (a *agenda) drop(c *podCase) {
	if c.place >= 0 {
		heap.Remove(a, int(c.place))
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
