package turns_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dra-steward/dra-steward/internal/turns"
)

const length = 50 * time.Millisecond

// spend takes a turn and uses it up to the end of it or of d.
func spend(share *turns.Share, d time.Duration) bool {
	turn, done, ok := share.Take()
	if ok {
		select {
		case <-turn.Done():
		case <-time.After(d):
		}
		done()
	}
	return ok
}

// TestShare: the turns of a share together are no longer than one.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &turns.Queue{Length: length}
		share := queue.For("jane")
		start := time.Now()
		if !spend(share, 30*time.Millisecond) || !spend(share, time.Hour) {
			t.Error("no turn though nobody else waits")
		}
		if got := time.Since(start); got != length {
			t.Errorf("the turns took %v, want %v", got, length)
		}
		if spend(share, 0) {
			t.Error("a turn more than there is")
		}
		if !spend(queue.For("jane"), 0) {
			t.Error("no turn for the next request")
		}
	})
}

// TestGiveUp: nobody waits longer than a turn, and a crowd does not wait at all.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &turns.Queue{Slots: 1, Length: length}
		_, done, _ := queue.For("greedy").Take()
		var group sync.WaitGroup
		var mu sync.Mutex
		waited := map[time.Duration]int{}
		for range 10 {
			group.Go(func() {
				start := time.Now()
				if spend(queue.For("jane"), 0) {
					t.Error("a turn, though the slot is taken")
				}
				mu.Lock()
				defer mu.Unlock()
				waited[time.Since(start)]++
			})
		}
		group.Wait()
		if waited[length] != 4 || waited[0] != 6 {
			t.Errorf("waited %v, want 4 a turn and 6 not at all", waited)
		}
		done()
		if !spend(queue.For("jane"), 0) {
			t.Error("the slot was not given back")
		}
	})
}

// TestLeastFirst: the user who has had least comes first, whoever waits longer.
func TestLeastFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := &turns.Queue{Slots: 1, Length: length}
		spend(queue.For("greedy"), time.Hour)
		_, done, _ := queue.For("other").Take()
		var group sync.WaitGroup
		var mu sync.Mutex
		var order []string
		for _, user := range []string{"greedy", "greedy", "jane"} {
			group.Go(func() {
				turn, done, ok := queue.For(user).Take()
				if !ok {
					return
				}
				mu.Lock()
				order = append(order, user)
				mu.Unlock()
				time.AfterFunc(time.Millisecond, done)
				<-turn.Done()
			})
			synctest.Wait()
		}
		done()
		group.Wait()
		if !slices.Equal(order, []string{"jane", "greedy", "greedy"}) {
			t.Errorf("order %v, want jane first", order)
		}
	})
}

// TestManyUsers neither deadlocks nor leaks slots, with real time.
func TestManyUsers(t *testing.T) {
	queue := &turns.Queue{Slots: 2, Length: 2 * time.Millisecond}
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range 20 {
				spend(queue.For(string(rune('a'+i%7))), time.Duration(i%3)*time.Millisecond)
			}
		})
	}
	group.Wait()
	for range 2 {
		if _, _, ok := queue.For("last").Take(); !ok {
			t.Fatal("a slot is lost")
		}
	}
}
