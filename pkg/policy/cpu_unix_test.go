//go:build unix

package policy_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime returns what the process has used. Unlike the clock it does not count what
// others use of a busy machine.
func cpuTime(b testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
