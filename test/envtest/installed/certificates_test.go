package installed

import (
	"context"
	"testing"
	"time"
)

// TestFirstInstall: with no value at all and nothing else in the cluster, what is
// installed becomes ready and guards.
func TestFirstInstall(t *testing.T) {
	start := time.Now()
	_, clients := install(t, nil)
	running := time.Since(start)
	eventually(t, "the cluster is guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	t.Logf("applied to running %v, to guarded %v", running, time.Since(start))
}
