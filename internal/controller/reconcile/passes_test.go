package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
)

// TestPasses: a pass follows a change and the time that the pass before gave, at most one each gap.
func TestPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changed, begin := make(chan struct{}, 1), time.Now()
		var at []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			reconcile.Passes(ctx, changed, time.Second, func(context.Context) time.Duration {
				at = append(at, time.Since(begin))
				return 10 * time.Second
			})
		}()
		synctest.Wait()
		changed <- struct{}{} // waits for the gap
		<-time.After(25 * time.Second)
		cancel()
		<-done
		want := []time.Duration{0, time.Second, 11 * time.Second, 21 * time.Second}
		if len(at) != len(want) {
			t.Fatalf("passes at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("pass %d at %s, want %s", i, at[i], want[i])
			}
		}
	})
}
