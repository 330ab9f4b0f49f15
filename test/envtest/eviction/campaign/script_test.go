package campaign

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A script makes random changes, which follow from a seed.
type script struct {
	w          *world
	random     *rand.Rand
	serial     int
	operations map[string]int
	swept      time.Time
}

// newScript returns a script. Two of different numbers make different choices.
func newScript(w *world, seed, number uint64) script {
	return script{w: w, random: rand.New(rand.NewPCG(seed, number)), operations: map[string]int{}}
}

func (s *script) String() string {
	var parts []string
	all := 0
	for _, name := range slices.Sorted(maps.Keys(s.operations)) {
		parts = append(parts, fmt.Sprintf("%d %s", s.operations[name], name))
		all += s.operations[name]
	}
	return fmt.Sprintf("%d operations (%s)", all, strings.Join(parts, ", "))
}

func (s *script) intN(n int) int { return s.random.IntN(n) }

// chance is true in so many of a hundred cases.
func (s *script) chance(percent int) bool { return s.intN(100) < percent }

func pick[T any](s interface{ intN(n int) int }, from ...T) T { return from[s.intN(len(from))] }

func (s *script) name(of string) string {
	s.serial++
	return fmt.Sprint(of, "-", s.serial)
}

// An operation is a change that a script makes.
type operation struct {
	name    string
	weight  int
	operate func(context.Context) error
}

// choose chooses an operation by its weight.
func (s *script) choose(operations []operation) operation {
	all := 0
	for _, o := range operations {
		all += o.weight
	}
	n := s.intN(all)
	for _, o := range operations {
		if n -= o.weight; n < 0 {
			return o
		}
	}
	return operation{}
}

// play operates until ctx ends, and sweeps in between.
func (s *script) play(ctx context.Context, t *testing.T, pace time.Duration, next func() operation, sweep func(context.Context) error, period time.Duration) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	always := context.WithoutCancel(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		o := next()
		s.operations[o.name]++
		if err := o.operate(always); err != nil {
			t.Errorf("%s: %v", o.name, err)
			return
		}
		if time.Since(s.swept) > period {
			if err := sweep(always); err != nil {
				t.Errorf("sweep: %v", err)
				return
			}
			s.swept = time.Now()
		}
	}
}
