// Package turns shares out time among users, so that what one of them asks for does not
// keep the others waiting.
package turns

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A Queue gives turns. A few are under way at once; whoever waits longer than a turn
// takes goes without, and of those who wait the user comes first who has had least.
type Queue struct {
	// Slots is how many turns are under way at once, at least 1. Length is how long a
	// turn is, and how long it is waited for.
	Slots  int
	Length time.Duration

	mu      sync.Mutex
	taken   int
	waiting []*waiter
	// had is the time that users have had lately.
	had map[string]time.Duration
}

type waiter struct {
	user  string
	grant chan struct{}
}

// crowd is how many requests of one user wait at once; more go without.
const crowd = 4

// lately bounds what is remembered: beyond, everything that users have had is halved.
const lately = time.Second

// A Share is what one request of a user gets.
type Share struct {
	queue *Queue
	user  string

	mu   sync.Mutex
	left time.Duration
}

// For returns the share of one request.
func (q *Queue) For(user string) *Share { return &Share{queue: q, user: user, left: q.Length} }

// Take waits for a turn. The turns of a Share together are no longer than one. It returns
// a context that ends with the turn and a function that gives it back, once; false if
// there is none to be had.
func (s *Share) Take() (turn context.Context, done func(), ok bool) {
	s.mu.Lock()
	left := s.left
	s.mu.Unlock()
	if left <= 0 || !s.queue.enter(s.user) {
		return nil, nil, false
	}
	start := time.Now()
	turn, cancel := context.WithTimeout(context.Background(), left)
	return turn, func() {
		cancel()
		took := time.Since(start)
		s.mu.Lock()
		s.left -= took
		s.mu.Unlock()
		s.queue.leave(s.user, took)
	}, true
}

// enter waits for a slot.
func (q *Queue) enter(user string) bool {
	w, free := q.join(user)
	if free || w == nil {
		return free
	}
	timeout := time.NewTimer(q.Length)
	defer timeout.Stop()
	select {
	case <-w.grant:
		return true
	case <-timeout.C:
		return !q.giveUp(w)
	}
}

// join takes a free slot, or a place among those who wait; neither in a crowd.
func (q *Queue) join(user string) (w *waiter, free bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken < max(q.Slots, 1) {
		q.taken++
		return nil, true
	}
	waiting := 0
	for _, other := range q.waiting {
		if other.user == user {
			waiting++
		}
	}
	if waiting >= crowd {
		return nil, false
	}
	w = &waiter{user, make(chan struct{})}
	q.waiting = append(q.waiting, w)
	return w, false
}

// giveUp stops waiting; false if the slot was granted at the same moment.
func (q *Queue) giveUp(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waiting, w)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	return at >= 0
}

// leave gives a slot to the one who waits and whose user has had least, else back.
func (q *Queue) leave(user string, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(user, took)
	if len(q.waiting) == 0 {
		q.taken--
		return
	}
	next := 0
	for i, w := range q.waiting {
		if q.had[w.user] < q.had[q.waiting[next].user] {
			next = i
		}
	}
	close(q.waiting[next].grant)
	q.waiting = slices.Delete(q.waiting, next, next+1)
}

// count remembers what a user has had, and forgets by and by.
func (q *Queue) count(user string, took time.Duration) {
	if q.had == nil {
		q.had = map[string]time.Duration{}
	}
	q.had[user] += took
	if q.had[user] < lately {
		return
	}
	for user, had := range q.had {
		if q.had[user] = had / 2; had < time.Millisecond {
			delete(q.had, user)
		}
	}
}
