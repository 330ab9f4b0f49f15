package fairqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dra-steward/dra-steward/internal/serving/fairqueue"
)

// work takes a slot for a while.
func work(ctx context.Context, q *fairqueue.Queue, tenant string, d time.Duration) error {
	release, err := q.Acquire(ctx, time.Hour, tenant)
	if err != nil {
		return err
	}
	<-time.After(d)
	release()
	return nil
}

// TestSlots: no more work is in progress than there are slots, and no tenant holds more than
// its part of them.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fairqueue.Queue{Slots: 4}
		var running, most, greedy, mostGreedy atomic.Int32
		enter := func(n, most *atomic.Int32) {
			if now := n.Add(1); now > most.Load() {
				most.Store(now)
			}
		}
		var group sync.WaitGroup
		for _, tenant := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "greedy", "a", "b", "c"} {
			group.Go(func() {
				release, err := q.Acquire(t.Context(), time.Hour, tenant)
				if err != nil {
					t.Errorf("%s: %v", tenant, err)
					return
				}
				defer release()
				enter(&running, &most)
				defer running.Add(-1)
				if tenant == "greedy" {
					enter(&greedy, &mostGreedy)
					defer greedy.Add(-1)
				}
				<-time.After(time.Second)
			})
		}
		group.Wait()
		if most.Load() != 4 || mostGreedy.Load() > 3 {
			t.Errorf("%d at once, %d of them of one tenant; want 4 and at most 3", most.Load(), mostGreedy.Load())
		}
	})
}

// TestFairByCost: a tenant with costly work gets the same time as one with cheap work, so
// the cheap work is not delayed by the number of requests of the other.
func TestFairByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fairqueue.Queue{Slots: 1, Waiting: 1000}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var costly, cheap atomic.Int64
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				for work(ctx, q, "costly", 100*time.Millisecond) == nil {
					costly.Add(100)
				}
			})
			group.Go(func() {
				for work(ctx, q, "cheap", time.Millisecond) == nil {
					cheap.Add(1)
				}
			})
		}
		group.Wait()
		if ratio := float64(cheap.Load()) / float64(costly.Load()); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("costly work got %d ms, cheap work %d ms; want about the same", costly.Load(), cheap.Load())
		}
	})
}

// TestNewTenantIsNotDelayed: who arrives during a flood waits for the work in progress only.
func TestNewTenantIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fairqueue.Queue{Slots: 1}
		var group sync.WaitGroup
		for range 30 {
			group.Go(func() { _ = work(t.Context(), q, "flood", time.Second) })
		}
		<-time.After(2500 * time.Millisecond)
		start := time.Now()
		if err := work(t.Context(), q, "other", 0); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("waited %v, want at most the rest of the work in progress", waited)
		}
		group.Wait()
	})
}

// TestBusy: work waits no longer than its context, and beyond a number not at all.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fairqueue.Queue{Slots: 1, Waiting: 2}
		release, err := q.Acquire(t.Context(), time.Hour, "a")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var group sync.WaitGroup
		var now, later atomic.Int32
		for range 5 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := work(ctx, q, "a", 0); !errors.Is(err, fairqueue.ErrBusy) {
					t.Errorf("got %v", err)
				}
				switch time.Since(start) {
				case 0:
					now.Add(1)
				case time.Second:
					later.Add(1)
				}
			})
		}
		group.Wait()
		if now.Load() != 3 || later.Load() != 2 {
			t.Errorf("%d refused at once, %d after a second; want 3 and 2", now.Load(), later.Load())
		}
		release()
		if err := work(t.Context(), q, "a", 0); err != nil {
			t.Errorf("with a free slot: %v", err)
		}
	})
}

// TestShares: one holder may use everything; once others come, each gets its part.
func TestShares(t *testing.T) {
	s := &fairqueue.Shares{Limit: 100}
	if !s.Take("first", 90) || s.Take("first", 20) {
		t.Error("one holder gets what there is, and no more")
	}
	if !s.Take("second", 50) || s.Take("second", 1) {
		t.Error("the second holder gets its half, and no more")
	}
	s.Return("first", 90)
	if !s.Take("second", 50) || s.Take("second", 1) {
		t.Error("what the first gives back the second may use")
	}
	s.Return("second", 100)
	if !s.Take("third", 100) {
		t.Error("all is given back")
	}
}

// TestSharesAreBounded: whatever the holders take and give back, in any order, they never hold more than twice the
// limit, one that holds nothing else gets all of it, and no share gets lost.
func TestSharesAreBounded(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		limit, holders, giving := 1+random.Int64N(1<<20), 1+random.IntN(200), random.Float64()/3
		s := &fairqueue.Shares{Limit: limit}
		held, total := make([]int64, holders), int64(0)
		const steps = 3000
		for step := range steps {
			i := random.IntN(1 + step*holders/steps) // they come one after the other
			if held[i] > 0 && random.Float64() < giving {
				n := 1 + random.Int64N(held[i])
				s.Return(strconv.Itoa(i), n)
				held[i], total = held[i]-n, total-n
				continue
			}
			n := 1 + random.Int64N(limit/int64(holders)+1)
			if taken := s.Take(strconv.Itoa(i), n); taken {
				held[i], total = held[i]+n, total+n
			} else if total+n <= limit {
				t.Fatalf("seed %d: %d are refused where %d of %d are used", seed, n, total, limit)
			}
			if total > 2*limit {
				t.Fatalf("seed %d: %d holders hold %d, the limit is %d", seed, holders, total, limit)
			}
		}
		for i, n := range held {
			if n > 0 {
				s.Return(strconv.Itoa(i), n)
			}
		}
		if !s.Take("last", limit) || s.Take("last", 1) {
			t.Fatalf("seed %d: not all is given back", seed)
		}
	}
}

// TestOneGroupForAnAddress: an address is one group, also if it had no work when groups were left out because there
// were too many.
func TestOneGroupForAnAddress(t *testing.T) {
	q := &fairqueue.Queue{Slots: 2, PerTenant: 1}
	do := func(tenant string) (release func()) {
		release, err := q.Acquire(t.Context(), time.Hour, tenant)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	for i := range 2048 { // more tenants than groups, so that not both are left out at the same time
		do(fmt.Sprintf("a%d\x00x", i))()
		do(fmt.Sprintf("a%d\x00y", i))()
	}
	for i := range 3000 {
		do("address\x00first")()
		do(fmt.Sprintf("b%d", i))()
	}
	defer do("address\x00first")()
	defer do("address\x00second")()
	if n := q.GroupsOf("address"); n != 1 {
		t.Errorf("the address has %d groups", n)
	}
}

// TestAllowance: the parts together take no longer than the allowance.
func TestAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := fairqueue.Allow(t.Context(), 50*time.Millisecond)
		start := time.Now()
		for _, d := range []time.Duration{30 * time.Millisecond, time.Hour} {
			part, done, ok := a.Take()
			if !ok {
				t.Fatalf("nothing left after %v", time.Since(start))
			}
			select {
			case <-part.Done():
			case <-time.After(d):
			}
			done()
		}
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if _, _, ok := a.Take(); ok {
			t.Error("more than the allowance")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, ok := fairqueue.Allow(ctx, time.Second).Take(); ok {
			t.Error("a part after the end of the request")
		}
	})
}
