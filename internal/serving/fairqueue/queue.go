// Package fairqueue shares a bounded amount of work, memory and connections among tenants, so that
// the requests of one of them do not delay those of the others.
package fairqueue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrBusy is returned for work that cannot begin in time.
var ErrBusy = errors.New("too many requests are in progress")

// A Queue limits how much work is in progress. Work that has to wait is started in the order
// of start-time fair queueing: the tenant whose work has taken the least time goes first.
// What a piece of work will take is not known in advance, so a tenant is charged its recent
// average at the start and the difference at the end.
type Queue struct {
	// Slots is how much work is in progress at the same time; at least 1.
	Slots int
	// PerTenant is how many of the slots one tenant may hold; 0 means three quarters of
	// them. With one slot a tenant may hold it.
	PerTenant int
	// Waiting is how much work of one tenant may wait; more is refused at once. 0 means 512.
	Waiting int

	mu      sync.Mutex
	running int
	// clock is the virtual time: the largest virtual start of all work that has begun.
	clock   time.Duration
	tenants map[string]*tenant
	// groups are where work comes from, such as an address: what is before a NUL in the name of a
	// tenant, or all of it. The group goes first whose work has taken the least time, and then its
	// tenant, so that tenants that a group makes up cost others nothing.
	groups     map[string]*group
	groupClock time.Duration
}

type group struct {
	start time.Duration
	work  int // running and waiting
}

type tenant struct {
	group *group
	// start is the virtual time at which the next work of the tenant begins.
	start time.Duration
	// average is a moving average of what its work takes.
	average time.Duration
	running int
	waiting []*waiter
}

type waiter struct {
	// granted is closed when there is a slot; nil if there was one at once.
	granted chan struct{}
	// charge is what the tenant was charged when the slot was granted.
	charge time.Duration
}

const (
	defaultWaiting = 512
	// maxTenants bounds what is remembered of tenants without work.
	maxTenants = 4096
)

// Acquire waits for a slot for some time, or until ctx ends. It returns a function that gives
// the slot back, to be called once, or ErrBusy.
func (q *Queue) Acquire(ctx context.Context, timeout time.Duration, name string) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, ErrBusy
	}
	w, err := q.enter(name)
	if err != nil || w.granted != nil && !q.wait(ctx, timeout, name, w) {
		return nil, ErrBusy
	}
	begun := time.Now()
	return func() { q.leave(name, time.Since(begun), w.charge) }, nil
}

// wait reports whether a slot is granted in time.
func (q *Queue) wait(ctx context.Context, timeout time.Duration, name string, w *waiter) bool {
	end := time.NewTimer(timeout)
	defer end.Stop()
	select {
	case <-w.granted:
		return true
	case <-ctx.Done():
	case <-end.C:
	}
	return !q.cancel(name, w) // otherwise the slot was granted at the same moment
}

// enter starts work if a slot is free, and puts it in the queue otherwise.
func (q *Queue) enter(name string) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.Waiting
	if limit <= 0 {
		limit = defaultWaiting
	}
	t := q.tenant(name)
	if len(t.waiting) >= limit {
		return nil, ErrBusy
	}
	w := &waiter{}
	if t.group.work++; t.group.work == 1 {
		t.group.start = max(t.group.start, q.groupClock)
	}
	// While a slot is free, only tenants at their limit have work that waits.
	if len(t.waiting) == 0 && q.running < max(q.Slots, 1) && t.running < q.perTenant() {
		q.start(t, w)
		return w, nil
	}
	w.granted = make(chan struct{})
	t.waiting = append(t.waiting, w)
	return w, nil
}

// start lets the work of a tenant begin.
func (q *Queue) start(t *tenant, w *waiter) {
	w.charge = t.average
	q.clock = max(q.clock, t.start)
	t.start += w.charge
	q.groupClock = max(q.groupClock, t.group.start)
	t.group.start += w.charge
	t.running++
	q.running++
}

// tenant returns a tenant of the queue, a new one if it is not known.
func (q *Queue) tenant(name string) *tenant {
	if len(q.tenants) >= maxTenants {
		maps.DeleteFunc(q.tenants, func(_ string, t *tenant) bool { return t.idle() })
	}
	if q.tenants == nil {
		q.tenants = map[string]*tenant{}
	}
	t := q.tenants[name]
	if t == nil {
		t = &tenant{}
		q.tenants[name] = t
	}
	if t.idle() {
		t.group = q.group(name)         // the one of before may be left out by now
		t.start = max(t.start, q.clock) // a tenant saves nothing up while it has no work
	}
	return t
}

// group returns the group of a tenant, a new one if it is not known.
func (q *Queue) group(name string) *group {
	name, _, _ = strings.Cut(name, "\x00")
	if len(q.groups) >= maxTenants { // those that are left out here are not those of a tenant with work
		maps.DeleteFunc(q.groups, func(_ string, g *group) bool { return g.work == 0 })
	}
	if q.groups == nil {
		q.groups = map[string]*group{}
	}
	if q.groups[name] == nil {
		q.groups[name] = &group{}
	}
	return q.groups[name]
}

func (t *tenant) before(other *tenant) bool {
	return cmp.Or(cmp.Compare(t.group.start, other.group.start), cmp.Compare(t.start, other.start)) < 0
}

func (t *tenant) idle() bool { return t.running == 0 && len(t.waiting) == 0 }

// dispatch grants free slots to those who wait.
func (q *Queue) dispatch() {
	for q.running < max(q.Slots, 1) {
		t := q.next()
		if t == nil {
			return
		}
		w := t.waiting[0]
		t.waiting = t.waiting[1:]
		q.start(t, w)
		close(w.granted)
	}
}

// next returns the tenant whose work begins next, nil if there is none.
func (q *Queue) next() (first *tenant) {
	for _, t := range q.tenants {
		if len(t.waiting) > 0 && t.running < q.perTenant() && (first == nil || t.before(first)) {
			first = t
		}
	}
	return first
}

func (q *Queue) perTenant() int {
	if q.PerTenant > 0 {
		return q.PerTenant
	}
	return max(q.Slots-max(q.Slots/4, 1), 1)
}

// cancel stops waiting; false if the slot is granted already.
func (q *Queue) cancel(name string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenants[name]
	if t == nil {
		return false
	}
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.group.work--
	}
	return i >= 0
}

// leave gives a slot back and charges the tenant for what the work took.
func (q *Queue) leave(name string, took, charged time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenants[name]
	t.start += took - charged
	t.average += (took - t.average) / 4
	t.group.start += took - charged
	t.group.work--
	t.running--
	q.running--
	q.dispatch()
}

// An Allowance is the time that one request may spend on something, in several parts.
type Allowance struct {
	ctx context.Context

	mu   sync.Mutex
	left time.Duration
}

// Allow returns an allowance that ends with ctx.
func Allow(ctx context.Context, d time.Duration) *Allowance { return &Allowance{ctx: ctx, left: d} }

// Take starts a part. It returns a context that ends with the allowance, and a function
// that ends the part, to be called once; false if nothing is left.
func (a *Allowance) Take() (part context.Context, done func(), ok bool) {
	a.mu.Lock()
	left := a.left
	a.mu.Unlock()
	if left <= 0 || a.ctx.Err() != nil {
		return nil, nil, false
	}
	start := time.Now()
	part, cancel := context.WithTimeout(a.ctx, left)
	return part, func() {
		cancel()
		a.mu.Lock()
		a.left -= time.Since(start)
		a.mu.Unlock()
	}, true
}

// Shares bound an amount that several holders use at the same time, such as bytes. Up to
// Limit everybody gets what it asks for. Beyond, a holder still gets its fair share, Limit
// divided by the number of holders, so that those who came first cannot keep it for
// themselves, as long as there is some: all together never hold more than twice the Limit.
type Shares struct {
	Limit int64

	mu   sync.Mutex
	used int64
	held map[string]int64
}

// Take adds n to what a holder uses; false if that is too much now.
func (s *Shares) Take(holder string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	holders := int64(len(s.held))
	if s.held[holder] == 0 {
		holders++
	}
	if s.used+n > s.Limit && (s.held[holder]+n > s.Limit/holders || s.used+n > 2*s.Limit) {
		return false
	}
	if s.held == nil {
		s.held = map[string]int64{}
	}
	s.used += n
	s.held[holder] += n
	return true
}

// Return gives back n of what a holder uses.
func (s *Shares) Return(holder string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if s.held[holder] -= n; s.held[holder] <= 0 {
		delete(s.held, holder)
	}
}
