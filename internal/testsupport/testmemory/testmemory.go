// Package testmemory reads and limits the memory of processes that tests start. It needs Linux.
package testmemory

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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

// Run runs a command and returns the most that its process held in RAM, in bytes. The usage that the system reports for
// an ended process also counts the memory of this process at the start of the other.
func Run(command *exec.Cmd) (most int64, err error) {
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			if now, err := Of(command.Process.Pid, "VmHWM"); err == nil {
				most = now
			}
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	err = command.Wait()
	close(ended)
	reading.Wait()
	return most, err
}

// Command is a program that may hold so many bytes until the test ends, by a control group of its own; with more it is killed. Where the
// test may make none, the limit is that of its data segment.
func Command(t testing.TB, bytes int64, program string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command("sh", slices.Concat([]string{"-c", `if [ -n "$0" ]; then echo $$ > "$0"; else ulimit -d "$1"; fi && shift && exec "$@"`,
		group(t, bytes), strconv.FormatInt(bytes>>10, 10), program}, args)...)
}

// group makes a control group and returns the file that a process writes its PID to; "" if the test may make none.
func group(t testing.TB, bytes int64) (procs string) {
	t.Helper()
	for _, version := range []struct{ parent, limit string }{{"/sys/fs/cgroup", "memory.max"}, {"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}} {
		dir, err := os.MkdirTemp(version.parent, "dra-steward-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		// In version 1 the first parent is a folder as any other: what is written there limits nothing.
		limit, err := os.OpenFile(filepath.Join(dir, version.limit), os.O_WRONLY, 0)
		if err != nil {
			continue
		}
		_, err = limit.WriteString(strconv.FormatInt(bytes, 10))
		if errors.Join(err, limit.Close()) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	return ""
}
