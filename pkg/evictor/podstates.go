package evictor

import (
	"cmp"
	"container/heap"
	"iter"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// podStates holds the state of each pod with a verdict, the queue of evictions and the
// counts per cause, and keeps them consistent. It has no lock and makes no API call.
type podStates struct {
	pods map[types.NamespacedName]*podState
	// taints has the last taint of each cause, which the states of most pods share.
	taints map[cause]*Taint
	clock  clock
	queue  evictionQueue
	paused map[*podState]struct{}
	// partly are waiting pods some of whose reasons are paused.
	partly map[*podState]struct{}
	// replaced are plans that a worker has begun to carry out and that do not apply any more. The windows of the breaker have
	// them until the worker ends.
	replaced map[*podState][]Verdict
	causes   causeStats
	// deletions are the evicted pods that have not been reported yet.
	deletions []deletion
	// byState counts the pods by their state.
	byState map[string]int
	// until is up to when reasons were last counted in the windows of the breaker.
	until int64
}

func newPodStates() *podStates {
	return &podStates{
		pods: map[types.NamespacedName]*podState{}, taints: map[cause]*Taint{}, paused: map[*podState]struct{}{},
		partly: map[*podState]struct{}{}, replaced: map[*podState][]Verdict{}, byState: map[string]int{},
	}
}

// of returns the state of a pod, or nil.
func (cs *podStates) of(pod types.NamespacedName) *podState { return cs.pods[pod] }

// all yields all states, in no order.
func (cs *podStates) all() iter.Seq[*podState] { return maps.Values(cs.pods) }

// known reports whether a state is the current one of its pod.
func (cs *podStates) known(c *podState) bool { return cs.of(c.pod) == c }

// changed is the consequence of a new decision.
type changed int

const (
	unchanged changed = iota
	planned
	cancelled
)

// A decision is the result for one pod.
type decision struct {
	verdict Verdict
	plan    plan
	preview Verdict
	// ending is true for a pod that is being deleted.
	ending bool
}

func (d decision) idle() bool { return !d.verdict.Evict() && !d.preview.Evict() }

func (d decision) equal(e decision) bool {
	return d.verdict.equal(e.verdict) && d.plan.equal(e.plan) && d.preview.equal(e.preview)
}

// decided updates the state of a pod for a new decision.
func (cs *podStates) decided(pod types.NamespacedName, uid types.UID, d decision, now time.Time) changed {
	if had := cs.of(pod); had != nil && had.uid != uid {
		cs.gone(pod, now)
	}
	c := cs.of(pod)
	switch {
	case c == nil && d.idle():
		return unchanged
	case c == nil:
		c = &podState{pod: pod, uid: uid, heapIndex: -1}
		cs.pods[pod] = c
	case c.stage == done:
		return unchanged
	}
	c.ending = d.ending
	switch {
	case c.ending && c.stage != acting && c.unconfirmed != nil:
		cs.confirmDeletion(c)
		return unchanged
	case c.decision().equal(d):
		return unchanged
	}
	return cs.replan(c, d, now)
}

func (cs *podStates) replan(c *podState, d decision, now time.Time) changed {
	for _, v := range []Verdict{d.verdict, d.plan.Verdict, d.plan.held, d.preview} {
		cs.share(v)
	}
	had, until := c.plan != nil, horizon(now)
	cs.count(c, func() {
		cs.causes.add(c, d.plan, until, +1, now)
		cs.out(c, now)
		cs.causes.addPreview(c, d.preview, +1)
		cs.causes.addPreview(c, c.preview.verdict(), -1)
		c.set(d)
		c.until = until
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
		cs.queue.put(c, cs.begin(c))
	}
	return planned
}

// share makes the reasons of a verdict share equal taints with those of other pods.
func (cs *podStates) share(v Verdict) {
	for i := range v.Reasons {
		r := &v.Reasons[i]
		if last := cs.taints[causeOf(*r)]; last != nil && last.equal(r.Taint) {
			r.Taint = last
		} else {
			cs.taints[causeOf(*r)] = r.Taint
		}
	}
}

// begin returns when to carry out the plan of a pod.
func (cs *podStates) begin(c *podState) time.Time { return c.planned().begin(cs.clock.time(c.since)) }

// count updates byState while f changes the state of a pod.
func (cs *podStates) count(c *podState, f func()) {
	had := c.state()
	f()
	if has := c.state(); has != had {
		change(cs.byState, had, -1)
		change(cs.byState, has, +1)
	}
}

// out removes the plan of a pod from the counts. A pod that a worker evicts remains in the
// breaker's windows until the worker ends: it may be deleted already.
func (cs *podStates) out(c *podState, now time.Time) {
	if c.stage != acting {
		cs.causes.add(c, c.planned(), c.until, -1, now)
		return
	}
	cs.causes.pend(c, c.planned(), c.until, -1)
	if counted := c.planned().within(c.until); counted.Evict() {
		cs.replaced[c] = append(cs.replaced[c], counted)
	}
}

// settle takes the plans that a pod had while a worker worked on it out of the windows. One stays there for a pod that was
// evicted and has no other plan by now.
func (cs *podStates) settle(c *podState, evicted bool) {
	left := cs.replaced[c]
	delete(cs.replaced, c)
	if evicted && c.plan == nil && len(left) > 0 {
		left = left[:len(left)-1]
	}
	for _, counted := range left {
		cs.causes.takeBack(c.pod.Namespace, counted)
	}
}

// countDue adds to the windows of the breaker what has become due soon, and forgets what was not carried out.
func (cs *podStates) countDue(now time.Time) {
	until := horizon(now)
	if until >= cs.until && until < cs.until+countPeriod {
		return
	}
	cs.until = until
	for c := range cs.all() {
		cs.lapse(c, now)
		if p := c.planned(); c.stage != acting && p.dueAfter(nil, c.until, until) {
			cs.causes.add(c, p, until, +1, now)
			cs.causes.add(c, p, c.until, -1, now)
			c.until = until
		}
	}
}

// leave removes a pod from the queue and from those with paused reasons.
func (cs *podStates) leave(c *podState) {
	cs.queue.drop(c)
	delete(cs.partly, c)
	if c.stage == paused {
		delete(cs.paused, c)
		c.stage = waiting
	}
}

// gone drops the state of a pod that does not exist any more.
func (cs *podStates) gone(pod types.NamespacedName, now time.Time) {
	if c := cs.of(pod); c != nil {
		cs.left(c, now)
	}
}

// left drops the state of a pod that is gone.
func (cs *podStates) left(c *podState, now time.Time) {
	if !cs.known(c) {
		return
	}
	if c.stage != acting && c.unconfirmed != nil {
		cs.confirmDeletion(c)
	}
	cs.count(c, func() {
		cs.out(c, now)
		cs.causes.addPreview(c, c.preview.verdict(), -1)
		cs.leave(c)
		c.set(decision{})
	})
	cs.drop(c)
}

func (cs *podStates) drop(c *podState) {
	cs.leave(c)
	if c.stage != acting {
		delete(cs.replaced, c)
	}
	if delete(cs.pods, c.pod); len(cs.pods) == 0 {
		clear(cs.taints)
	}
}

// take returns the next pod that is due.
func (cs *podStates) take(now time.Time) *podState {
	c := cs.queue.take(now)
	if c != nil {
		delete(cs.partly, c)
		c.stage = acting
		cs.causes.evicts(c, now)
	}
	return c
}

// pause sets a taken pod aside until resume.
func (cs *podStates) pause(c *podState) {
	cs.count(c, func() { c.stage = paused })
	cs.paused[c] = struct{}{}
}

// pausePart postpones a taken pod until the first of its reasons that are not paused.
func (cs *podStates) pausePart(c *podState, until time.Time) {
	if cs.postpone(c, until); c.heapIndex >= 0 {
		cs.partly[c] = struct{}{}
	}
}

// resume queues all pods with paused reasons again.
func (cs *podStates) resume() {
	for c := range cs.partly {
		cs.queue.put(c, cs.begin(c))
	}
	clear(cs.partly)
	for c := range cs.paused {
		cs.count(c, func() { c.stage = waiting })
		cs.queue.put(c, cs.begin(c))
	}
	clear(cs.paused)
}

// confirmDeletion counts a pod that terminates after an unanswered DELETE as evicted.
func (cs *podStates) confirmDeletion(c *podState) {
	cs.count(c, func() { cs.leave(c) })
	cs.over(c)
}

// unanswered postpones a taken pod whose deletion for the reasons of p had no answer: the
// API server may have carried it out.
func (cs *podStates) unanswered(c *podState, p Verdict, until time.Time) {
	c.unconfirmed = &unconfirmed{p, until.Add(lapsePeriod)}
	cs.postpone(c, until)
}

// lapsePeriod is after how long the watch would have shown a deletion that had no answer: API servers carry out a request
// for a minute at most. Who deletes the pod later is another user.
const lapsePeriod = 2 * time.Minute

// lapse forgets a deletion that had no answer and that the API server has not carried out.
func (cs *podStates) lapse(c *podState, now time.Time) {
	if c.stage == acting || c.unconfirmed == nil || now.Before(c.unconfirmed.until) {
		return
	}
	c.unconfirmed = nil
	cs.settle(c, false)
	if c.idle() {
		cs.drop(c)
	}
}

// postpone queues a taken pod again, for a time.
func (cs *podStates) postpone(c *podState, until time.Time) {
	known := cs.known(c)
	if (c.ending || !known) && c.unconfirmed != nil {
		cs.over(c)
		return
	}
	if c.unconfirmed == nil {
		cs.settle(c, false)
	}
	if !known {
		return
	}
	c.stage = waiting
	switch {
	case c.plan != nil:
		cs.queue.put(c, until)
	case c.idle():
		cs.drop(c)
	}
}

// evicted counts a taken pod that was deleted for the reasons of p.
func (cs *podStates) evicted(c *podState, p Verdict) {
	c.unconfirmed = nil
	cs.settle(c, true)
	cs.causes.evicted(c.pod.Namespace, p)
	cs.deletions = append(cs.deletions, deletion{c.pod, c.uid, p})
	cs.over(c)
}

// A deletion is an evicted pod.
type deletion struct {
	pod     types.NamespacedName
	uid     types.UID
	verdict Verdict
}

// takeDeletions returns the deletions since the last call.
func (cs *podStates) takeDeletions() []deletion {
	all := cs.deletions
	cs.deletions = nil
	return all
}

// over ends the work on a taken pod. Its state remains until the pod is gone, so that it
// is neither evicted nor counted twice. If an earlier DELETE had no answer, it succeeded.
func (cs *podStates) over(c *podState) {
	if c.unconfirmed != nil {
		cs.evicted(c, c.unconfirmed.verdict)
		return
	}
	if !cs.known(c) {
		return
	}
	cs.count(c, func() {
		cs.causes.pend(c, c.planned(), c.until, -1)
		cs.causes.addPreview(c, c.preview.verdict(), -1)
		c.set(decision{})
		c.stage = done
	})
}

// A stage is the progress of the eviction of a pod.
type stage uint8

const (
	waiting stage = iota // in the queue, or without a plan
	acting               // a worker evicts it
	paused               // by the circuit breaker
	done                 // deleted, and not gone yet
)

// A podState is the state of one pod that has a verdict or was evicted. One rule can create
// ten thousand of them, so rare fields are pointers.
type podState struct {
	pod types.NamespacedName
	uid types.UID
	// verdict has all reasons; plan those to carry out and held those to confirm, by these
	// shares; preview has those of rules with the effect None.
	verdict, plan, held, preview *reasons
	// unconfirmed is a DELETE that had no answer, also while there are no reasons any more.
	unconfirmed *unconfirmed
	shares      shares
	stage       stage
	// disrupted: another controller is about to terminate the pod. ending: the pod is being
	// deleted.
	disrupted, ending bool
	failures          int32
	// heapIndex is that in the queue, -1 outside.
	heapIndex int32
	// seen is when the verdict first had reasons; since is when the plan first had them.
	seen, since moment
	// at is when to evict: the time of the plan or later.
	at time.Time
	// until is up to when the reasons of the plan count in the windows of the breaker.
	until int64
}

// unconfirmed is a DELETE that had no answer, for the reasons of a verdict. Until a time, a pod that goes counts as evicted.
type unconfirmed struct {
	verdict Verdict
	until   time.Time
}

// reasons are those of a verdict, in their order; nil if there are none.
type reasons struct{ all []Reason }

func reasonsOf(v Verdict) *reasons {
	if !v.Evict() {
		return nil
	}
	return &reasons{slices.Clip(v.Reasons)}
}

// verdict returns the verdict with the reasons.
func (r *reasons) verdict() Verdict {
	if r == nil {
		return Verdict{}
	}
	return Verdict{At: earliest(r.all), Reasons: r.all}
}

// set stores a decision.
func (s *podState) set(d decision) {
	s.verdict, s.held, s.preview, s.shares = reasonsOf(d.verdict), reasonsOf(d.plan.held), reasonsOf(d.preview), d.plan.shares
	if s.plan = s.verdict; !d.plan.whole(d.verdict) {
		s.plan = reasonsOf(d.plan.Verdict)
	}
}

// decision returns the last decision.
func (s *podState) decision() decision {
	return decision{verdict: s.verdict.verdict(), plan: s.planned(), preview: s.preview.verdict(), ending: s.ending}
}

func (s *podState) planned() plan {
	return plan{Verdict: s.plan.verdict(), held: s.held.verdict(), shares: s.shares}
}

// idle reports whether the state has no reasons, and no DELETE to be confirmed.
func (s *podState) idle() bool { return s.verdict == nil && s.preview == nil && s.unconfirmed == nil }

// state is the state in metrics, empty for a pod that they do not count.
func (s *podState) state() string {
	switch {
	case s.stage == done || s.verdict == nil:
		return ""
	case s.stage == paused:
		return "paused"
	case s.plan != nil:
		return "planned"
	case s.held != nil:
		return "held"
	}
	return "observed"
}

// A moment is the time since the start of a clock, in a third of the memory of a
// time.Time. Zero is no time.
type moment time.Duration

// clock converts times to moments and back.
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

// compare is the order of the queue.
func (s *podState) compare(d *podState) int {
	return cmp.Or(s.at.Compare(d.at), cmp.Compare(s.uid, d.uid))
}

// evictionQueue is a heap of pods by the time of their eviction. It has no stale entries.
type evictionQueue []*podState

var _ heap.Interface = (*evictionQueue)(nil)

func (q evictionQueue) Len() int           { return len(q) }
func (q evictionQueue) Less(i, j int) bool { return q[i].compare(q[j]) < 0 }
func (q evictionQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = int32(i), int32(j)
}

// Push implements heap.Interface.
func (q *evictionQueue) Push(x any) {
	c, _ := x.(*podState)
	c.heapIndex = int32(len(*q))
	*q = append(*q, c)
}

// Pop implements heap.Interface.
func (q *evictionQueue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	c.heapIndex = -1
	return c
}

// put adds a pod, or moves it to another time.
func (q *evictionQueue) put(c *podState, at time.Time) {
	c.at = at
	if c.heapIndex < 0 {
		heap.Push(q, c)
	} else {
		heap.Fix(q, int(c.heapIndex))
	}
}

// drop removes a pod, if it is in the queue.
func (q *evictionQueue) drop(c *podState) {
	if c.heapIndex >= 0 {
		heap.Remove(q, int(c.heapIndex))
	}
}

// next returns the time of the first pod; false if the queue is empty.
func (q evictionQueue) next() (time.Time, bool) {
	if len(q) == 0 {
		return time.Time{}, false
	}
	return q[0].at, true
}

// take removes and returns the first pod if it is due.
func (q *evictionQueue) take(now time.Time) *podState {
	if at, any := q.next(); !any || at.After(now) {
		return nil
	}
	c, _ := heap.Pop(q).(*podState)
	return c
}
