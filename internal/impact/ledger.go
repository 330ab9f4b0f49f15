package impact

import (
	"sync"
	"time"

	"github.com/dra-steward/dra-steward/internal/guard"
)

// storedWithin is how long a write that was admitted may take until it is stored, and until
// this process sees it.
const storedWithin = time.Minute

// A ledger remembers the evictions that began: those that this process admitted, and those
// that it sees stored, whichever process admitted them. The zero value is empty.
type ledger struct {
	mutex sync.Mutex
	all   []*begun
}

// A begun is an eviction of one object. An object that is changed can begin several.
type begun struct {
	guard.Start
	// now returns what it affects at present; pods that have left are not part of that.
	now func() guard.Hit
	// perMinute bounds the pods that it evicts; 0 does not.
	perMinute int
	// stored is false while only its admission is known, ended once it evicts no more.
	stored, ended bool
}

// admit remembers a write that is about to be stored.
func (l *ledger) admit(b begun) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.note(b)
}

// see remembers an object that is stored. What it evicted before has ended.
func (l *ledger) see(stored begun) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	current := l.note(stored)
	for _, b := range l.all {
		b.ended = b.ended || b.Object == stored.Object
	}
	current.stored, current.ended = true, false
}

// note adds an eviction. The admission of a write, and that it is stored, are the same one.
func (l *ledger) note(noted begun) *begun {
	for _, b := range l.all {
		if b.Object == noted.Object && !b.stored && noted.Time.Sub(b.Time).Abs() < storedWithin {
			noted.Hit = b.Hit.Merge(noted.Hit)
			*b = noted
			return b
		}
	}
	l.all = append(l.all, &noted)
	return &noted
}

// end notes that an object evicts no more.
func (l *ledger) end(object string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, b := range l.all {
		b.ended = b.ended || b.Object == object && b.stored
	}
}

// starts returns the evictions that began, each with what it has affected so far: an eviction
// that goes on counts with the pods that left and those that will, one that ended, or was
// never stored, with those that left. None counts with more pods than its rate allows within
// the window.
func (l *ledger) starts(now time.Time, window time.Duration) (starts []guard.Start) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var kept []*begun
	for _, b := range l.all {
		if now.Sub(b.Time) >= guard.MaxWindow {
			continue
		}
		kept = append(kept, b)
		if now.Sub(b.Time) >= window {
			continue // counting it is costly, and it is not part of the sum
		}
		start := b.Start
		if b.ended || !b.stored && now.Sub(b.Time) > storedWithin {
			start.Hit = b.Hit.Without(b.now())
		} else {
			b.Hit = b.Hit.Merge(b.now())
			start.Hit = b.Hit
		}
		if b.perMinute > 0 {
			start.Hit = start.Hit.AtRate(b.perMinute, window)
		}
		starts = append(starts, start)
	}
	l.all = kept
	return starts
}
