package device

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// whyMemory is the soft limit of why in bytes: with the slices of 5,000 nodes it needs 450 MiB instead of 600, and a tenth
// more time.
const whyMemory = 400 << 20

// limitMemory has the Go runtime collect garbage more often close to a soft limit, in bytes. The limit grows with what is
// in use, so that garbage is collected at most as often as with GOGC=50. It does nothing if GOMEMLIMIT is set.
func limitMemory(limit int64, check time.Duration) (stop func()) {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(limit)
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for ticks := time.Tick(check); ; {
			select {
			case <-ended:
				return
			case <-ticks:
			}
			metrics.Read(inUse)
			if needed := int64(inUse[0].Value.Uint64() / 2 * 3); needed > limit {
				limit = needed
				debug.SetMemoryLimit(limit)
			}
		}
	})
	return func() {
		close(ended)
		running.Wait()
		debug.SetMemoryLimit(math.MaxInt64)
	}
}
