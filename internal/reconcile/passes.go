package reconcile

import (
	"context"
	"time"
)

// Passes calls pass until ctx ends: when something has changed, and when the pass before asked for
// it, but at most once in each gap, so that changes are gathered.
func Passes(ctx context.Context, changed <-chan struct{}, gap time.Duration, pass func(context.Context) (next time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := pass(ctx)
		timer.Reset(gap)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(max(next-gap, 0))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Reset(0)
	}
}
