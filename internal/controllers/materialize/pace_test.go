package materialize_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
)

// TestPace: 5,000 pools take less than two minutes while the API server answers in 50 ms,
// at most 100 a second, and an API server that needs two seconds gets one update at a time.
func TestPace(t *testing.T) {
	for _, tt := range []struct {
		latency time.Duration
		within  time.Duration
		// Of these pools, so many are touched within that time.
		pools, least, most, atOnce int
	}{
		{50 * time.Millisecond, 2 * time.Minute, 5000, 5000, 5000, 8},
		{time.Millisecond, 20 * time.Second, 2500, 1500, 2000, 8},
		{2 * time.Second, 2 * time.Minute, 200, 30, 60, 1},
	} {
		t.Run(tt.latency.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := []any{rackPatch("p", "r1", "")}
				for i := range tt.pools {
					objects = append(objects, slice(fmt.Sprint("s-", i), fmt.Sprint("pool-", i), 1, 1))
				}
				var mutex sync.Mutex // guards what follows
				touched, now, atOnce := map[string]bool{}, 0, 0
				resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: viewOf(objects...), Mode: slicemerge.Materialize, Touch: func(_ context.Context, touch materialize.Touch) error {
					mutex.Lock()
					touched[touch.Slice] = true
					now++
					atOnce = max(atOnce, now)
					mutex.Unlock()
					<-time.After(tt.latency)
					mutex.Lock()
					defer mutex.Unlock()
					now--
					return nil
				}})
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = resyncer.Run(ctx) }()
				<-time.After(tt.within)
				mutex.Lock()
				if n := len(touched); n < tt.least || n > tt.most || atOnce > tt.atOnce {
					t.Errorf("%d pools after %s, want %d to %d; %d at once, want at most %d", n, tt.within, tt.least, tt.most, atOnce, tt.atOnce)
				}
				mutex.Unlock()
				cancel()
				synctest.Wait()
				<-time.After(time.Minute)
			})
		})
	}
}
