package evictor

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/table"
)

// cases are all pods with a verdict, the agenda and the counts, kept consistent. It
// has no lock and makes no call.
type cases struct {
	pods table.Table[types.NamespacedName, caseEntry]
	// taints are the last ones of each cause, which most pods that it hits share.
	taints map[cause]*Taint
	clock  clock
	agenda agenda
	paused map[*podCase]struct{}
	ledger ledger
	// states counts the pods by their state.
	states map[string]int
}

func newCases() *cases {
	return &cases{taints: map[cause]*Taint{}, paused: map[*podCase]struct{}{}, states: map[string]int{}}
}

// caseEntry is a case among all, of which there is one for each name.
type caseEntry struct{ *podCase }

// Key implements [table.Entry].
func (e caseEntry) Key() types.NamespacedName { return e.pod }

// of is the case of the pod of that name, nil if there is none.
func (cs *cases) of(pod types.NamespacedName) *podCase { return cs.pods.Get(pod).podCase }

// all yields the cases, in no order.
func (cs *cases) all() iter.Seq[*podCase] {
	return func(yield func(*podCase) bool) {
		for e := range cs.pods.All() {
			if !yield(e.podCase) {
				return
			}
		}
	}
}

// known says whether a case is one of a pod that is there.
func (cs *cases) known(c *podCase) bool { return cs.of(c.pod) == c }

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

func (d decision) equal(e decision) bool {
	return d.verdict.Equal(e.verdict) && d.plan.equal(e.plan) && d.would.Equal(e.would)
}

// decided takes a new decision about a pod into account.
func (cs *cases) decided(pod types.NamespacedName, uid types.UID, d decision, now time.Time) changed {
	if had := cs.of(pod); had != nil && had.uid != uid {
		cs.gone(pod, now)
	}
	c := cs.of(pod)
	switch {
	case c == nil && d.idle():
		return unchanged
	case c == nil:
		c = &podCase{pod: pod, uid: uid, place: -1}
		cs.pods.Add(caseEntry{c})
	case c.stage == done:
		return unchanged
	}
	c.ending = d.ending
	switch {
	case c.ending && c.stage != acting && c.asked != nil:
		cs.settle(c)
		return unchanged
	case c.decision().equal(d):
		return unchanged
	}
	return cs.replan(c, d, now)
}

func (cs *cases) replan(c *podCase, d decision, now time.Time) changed {
	for _, v := range []Verdict{d.verdict, d.plan.Verdict, d.plan.held, d.would} {
		cs.share(v)
	}
	had := c.plan != nil
	cs.count(c, func() {
		cs.ledger.add(c, d.plan, +1, now)
		cs.out(c, now)
		cs.ledger.would(c, d.would, +1)
		cs.ledger.would(c, c.would.verdict(), -1)
		c.set(d)
		if c.seen == 0 && c.verdict != nil {
			c.seen = cs.clock.moment(now)
		}
		cs.leave(c)
	})
	if c.plan == nil {
		c.failures, c.since = 0, 0
		if c.idle() && c.stage != acting {
			cs.drop(c)
		}
		if had {
			return cancelled
		}
		return unchanged
	}
	if c.since == 0 {
		c.since = cs.clock.moment(now)
	}
	if c.stage == waiting {
		cs.agenda.put(c, cs.begin(c))
	}
	return planned
}

// share has the reasons of a verdict share their taints with those of others.
func (cs *cases) share(v Verdict) {
	for i := range v.Reasons {
		r := &v.Reasons[i]
		if last := cs.taints[causeOf(*r)]; last != nil && last.equal(r.Taint) {
			r.Taint = last
		} else {
			cs.taints[causeOf(*r)] = r.Taint
		}
	}
}

// begin is when to carry out the plan of a case.
func (cs *cases) begin(c *podCase) time.Time { return c.planned().begin(cs.clock.time(c.since)) }

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
		cs.ledger.pend(c, c.planned(), -1)
	} else {
		cs.ledger.add(c, c.planned(), -1, now)
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
	if c := cs.of(pod); c != nil {
		cs.left(c, now)
	}
}

// left notes that a pod is gone or terminating without us.
func (cs *cases) left(c *podCase, now time.Time) {
	if !cs.known(c) {
		return
	}
	if c.stage != acting && c.asked != nil {
		cs.settle(c)
	}
	cs.count(c, func() {
		cs.out(c, now)
		cs.ledger.would(c, c.would.verdict(), -1)
		cs.leave(c)
		c.set(decision{})
	})
	cs.drop(c)
}

func (cs *cases) drop(c *podCase) {
	cs.leave(c)
	if cs.pods.Remove(caseEntry{c}); cs.pods.Len() == 0 {
		clear(cs.taints)
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
		cs.agenda.put(c, cs.begin(c))
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
	c.asked = reasonsOf(p)
	cs.postpone(c, until)
}

// postpone puts a pod back that was taken, until a time.
func (cs *cases) postpone(c *podCase, until time.Time) {
	known := cs.known(c)
	if (c.ending || !known) && c.asked != nil {
		cs.over(c)
		return
	}
	if !known {
		return
	}
	c.stage = waiting
	if c.plan == nil {
		if c.idle() {
			cs.drop(c)
		}
		return
	}
	cs.agenda.put(c, until)
}

// evicted notes that a pod that was taken has been deleted by us, for the reasons of p.
func (cs *cases) evicted(c *podCase, p Verdict) {
	c.asked = nil
	cs.ledger.evicted(p)
	cs.over(c)
}

// over notes that there is nothing more to do about a pod that was taken. It stays known
// until we are told that it is gone, so that nothing is done or counted twice. If an
// earlier deletion by us had no answer it was that one.
func (cs *cases) over(c *podCase) {
	if c.asked != nil {
		cs.evicted(c, c.asked.verdict())
		return
	}
	if !cs.known(c) {
		return
	}
	cs.count(c, func() {
		cs.ledger.pend(c, c.planned(), -1)
		cs.ledger.would(c, c.would.verdict(), -1)
		c.set(decision{})
		c.stage = done
	})
}

// A stage is how far the eviction of a pod has come.
type stage uint8

const (
	waiting stage = iota // for its time, or for nothing
	acting               // a worker has it
	paused               // until a ceiling is raised, or what exceeds it is less
	done                 // it was deleted by us, and is not gone yet
)

// A podCase is what is known about one pod that has a verdict, or was evicted. A rule can
// make ten thousand of them, so what most have not got takes no more than a pointer.
type podCase struct {
	pod types.NamespacedName
	uid types.UID
	// verdict is the whole decision, plan and held the parts of it that are for us to
	// carry out, by these shares, and would what rules with the effect None would do.
	verdict, plan, held, would *reasons
	// asked are the reasons of a deletion by us that had no answer: it may have been
	// carried out.
	asked  *reasons
	shares Shares
	stage  stage
	// taken says that somebody else is about to end the pod, ending that it is being
	// deleted, by whomever.
	taken, ending bool
	failures      int32
	// place is the index in the heap, -1 outside.
	place int32
	// seen is when the verdict first had reasons, since when the plan first had.
	seen, since moment
	// at is when to act: the plan's time or later.
	at time.Time
}

// reasons are those of a verdict, in their order; nil are none.
type reasons struct{ all []Reason }

func reasonsOf(v Verdict) *reasons {
	if !v.Evict() {
		return nil
	}
	return &reasons{slices.Clip(v.Reasons)}
}

// verdict is what the reasons are of.
func (r *reasons) verdict() Verdict {
	if r == nil {
		return Verdict{}
	}
	return Verdict{At: earliest(r.all), Reasons: r.all}
}

// set takes over a decision.
func (c *podCase) set(d decision) {
	c.verdict, c.held, c.would, c.shares = reasonsOf(d.verdict), reasonsOf(d.plan.held), reasonsOf(d.would), d.plan.shares
	if c.plan = c.verdict; !d.plan.whole(d.verdict) {
		c.plan = reasonsOf(d.plan.Verdict)
	}
}

// decision is what was decided last.
func (c *podCase) decision() decision {
	return decision{verdict: c.verdict.verdict(), plan: c.planned(), would: c.would.verdict(), ending: c.ending}
}

func (c *podCase) planned() plan {
	return plan{Verdict: c.plan.verdict(), held: c.held.verdict(), shares: c.shares}
}

// idle says that there is nothing about the pod that has to be known.
func (c *podCase) idle() bool { return c.verdict == nil && c.would == nil }

// state is how metrics count the pod, empty for not at all.
func (c *podCase) state() string {
	switch {
	case c.stage == done || c.verdict == nil:
		return ""
	case c.stage == paused:
		return "paused"
	case c.plan != nil:
		return "planned"
	case c.held != nil:
		return "held"
	}
	return "observed"
}

// A moment is a time in a third of the memory: how long after the clock of the cases
// began. Zero is none.
type moment time.Duration

// clock turns times into moments and back, monotonic readings as well.
type clock struct{ begin time.Time }

func (k *clock) moment(t time.Time) moment {
	if k.begin.IsZero() {
		k.begin = t.Add(-1)
	}
	return moment(t.Sub(k.begin))
}

func (k *clock) time(m moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return k.begin.Add(time.Duration(m))
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
