// Package testmemory reads and limits the memory of processes that tests start. It needs Linux.
package testmemory

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Of returns a value of /proc/PID/status in bytes, such as VmRSS, the memory that a process holds,
// or VmHWM, the most that it has held.
func Of(pid int, key string) (int64, error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	_, value, found := strings.Cut(string(status), "\n"+key+":")
	if !found {
		return 0, fmt.Errorf("%s: no %s", name, key)
	}
	value, _, _ = strings.Cut(value, "kB")
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", name, key, err)
	}
	return kilobytes << 10, nil
}

// Limit makes a control group whose processes hold at most so many bytes together, until the test
// ends. It returns the file that a process writes its PID to; "" if the test may make none.
func Limit(t testing.TB, bytes int64) (procs string) {
	t.Helper()
	for _, version := range []struct{ parent, limit string }{{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}} {
		dir, err := os.MkdirTemp(version.parent, "dra-steward-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, version.limit), []byte(strconv.FormatInt(bytes, 10)), 0o600) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	return ""
}
