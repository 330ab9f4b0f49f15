package device

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestLimitMemory: the limit grows with what is in use, is gone after stop, and leaves that of GOMEMLIMIT.
func TestLimitMemory(t *testing.T) {
	const mib = 1 << 20
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	stop := limitMemory(64*mib, time.Millisecond)
	if got := debug.SetMemoryLimit(-1); got != 64*mib {
		t.Errorf("%d MiB at the start", got/mib)
	}
	used := make([]byte, 100*mib)
	runtime.GC()
	for deadline := time.Now().Add(10 * time.Second); debug.SetMemoryLimit(-1) < 150*mib; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB with 100 MiB in use", debug.SetMemoryLimit(-1)/mib)
		}
	}
	runtime.KeepAlive(used)
	stop()
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("%d after stop", got)
	}
	debug.SetMemoryLimit(1000 * mib)
	limitMemory(64*mib, time.Millisecond)()
	if got := debug.SetMemoryLimit(-1); got != 1000*mib {
		t.Errorf("%d MiB instead of the limit of GOMEMLIMIT", got/mib)
	}
}
