package campaign

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

// restartPause is how long a process that ended by itself is not started again. A kubelet waits longer.
const restartPause = time.Second

// A replica is the program in a process of its own, which is started again when it ends, as
// a kubelet does.
type replica struct {
	mutex   sync.Mutex
	now     *exec.Cmd
	log     *proc.Log // of the process that runs
	earlier *proc.Log // of the one before
	starts  int
	// ends are the times when a process ended without being killed.
	ends  []time.Time
	over  bool
	ended chan struct{}
}

func begin(t *testing.T, args []string) *replica {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{log: &proc.Log{}, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		for {
			c, err := r.start(self, args)
			if err != nil {
				t.Error(err)
			}
			if c == nil || err != nil {
				return
			}
			_ = c.Wait() // it was killed or terminated, has lost its Lease, or finds no API server
			if r.note(c) {
				longrun.Until(context.Background(), time.Now().Add(restartPause))
			}
		}
	}()
	t.Cleanup(func() {
		r.end()
		if t.Failed() {
			t.Logf("the ends of the logs of a replica:\n%s\n%s", tail(r.earlier), tail(r.log))
		}
	})
	return r
}

func tail(l *proc.Log) string {
	if l == nil {
		return ""
	}
	return proc.LastLines([]byte(l.String()), 30)
}

// start starts a process, unless the replica is over.
func (r *replica) start(self string, args []string) (*exec.Cmd, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.over {
		return nil, nil
	}
	r.starts++
	r.earlier, r.log = r.log, &proc.Log{}
	r.now = proc.Command(exec.Command(self, args...))
	r.now.Env = append(os.Environ(), actAsProgram+"=1")
	r.now.Stdout, r.now.Stderr = r.log, r.log
	return r.now, r.now.Start()
}

// note keeps the time when a process ended by itself, and reports whether it did.
func (r *replica) note(c *exec.Cmd) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	itself := c.ProcessState.ExitCode() >= 0
	if itself {
		r.ends = append(r.ends, time.Now())
	}
	return itself
}

// endTimes are the times when processes ended without being killed.
func (r *replica) endTimes() []time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.ends)
}

// end kills the process for good.
func (r *replica) end() {
	r.mutex.Lock()
	r.over = true
	if r.now != nil {
		_ = proc.Kill(r.now) // it may have ended
	}
	r.mutex.Unlock()
	<-r.ended
}

// process is the one that runs.
func (r *replica) process() (*exec.Cmd, *proc.Log, int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.now, r.log, r.starts
}

// leads reports whether the process that runs has said that it leads; one that has lost its
// Lease ends.
func (r *replica) leads() bool {
	_, log, _ := r.process()
	return leading(log)
}

func leading(log *proc.Log) bool { return strings.Contains(log.String(), `"msg":"leading"`) }
