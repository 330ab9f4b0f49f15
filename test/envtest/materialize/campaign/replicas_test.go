package campaign

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

const (
	// restartPause is how long a process that ended by itself is not started again. A kubelet waits longer.
	restartPause = time.Second
	// probePeriod and probeTimeout are those of the readiness probe.
	probePeriod  = 200 * time.Millisecond
	probeTimeout = time.Second
)

// A replica is the program in a process of its own, which is started again when it ends, as a
// kubelet does.
type replica struct {
	name string
	args []string
	// address is that of a webhook.
	address string
	// ready asks the process, given its log.
	ready func(ctx context.Context, log *proc.Log) bool
	ended chan struct{}

	mutex   sync.Mutex // guards what follows
	changed *sync.Cond
	now     *exec.Cmd
	log     *proc.Log // of the process that runs
	earlier *proc.Log // of the one before
	starts  int
	// itself counts processes that ended without being asked to.
	itself                     int
	asked, held, paused, over  bool
	running, endpoint, counted bool
	// spans are the times in which it was ready, without an interruption.
	spans []model.Span
}

func begin(t *testing.T, r *replica) *replica {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.log, r.ended, r.changed = &proc.Log{}, make(chan struct{}), sync.NewCond(&r.mutex)
	go func() {
		defer close(r.ended)
		for {
			c, err := r.start(self)
			if err != nil {
				t.Error(err)
			}
			if c == nil || err != nil {
				return
			}
			_ = c.Wait() // it was killed or terminated, has lost its Lease, or finds no API server
			if r.note() {
				longrun.Until(context.Background(), time.Now().Add(restartPause))
			}
		}
	}()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go r.probe(ctx)
	t.Cleanup(func() {
		cancel()
		r.end()
		if t.Failed() {
			t.Logf("the ends of the logs of %s:\n%s\n%s", r.name, tail(r.earlier), tail(r.log))
		}
	})
	return r
}

func tail(l *proc.Log) string {
	if l == nil {
		return ""
	}
	return proc.LastLines([]byte(l.String()), 12)
}

// start starts a process, unless the replica is over; one that is held waits.
func (r *replica) start(self string) (*exec.Cmd, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.held && !r.over {
		r.changed.Wait()
	}
	if r.over {
		return nil, nil
	}
	r.starts++
	r.asked, r.running = false, true
	r.earlier, r.log = r.log, &proc.Log{}
	r.now = proc.Command(exec.Command(self, r.args...))
	r.now.Env = append(os.Environ(), actAsProgram+"=1")
	r.now.Stdout, r.now.Stderr = r.log, r.log
	return r.now, r.now.Start()
}

// note keeps that the process has ended, and reports whether it did so by itself.
func (r *replica) note() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.running, r.paused, r.endpoint = false, false, false
	r.close()
	if !r.asked {
		r.itself++
	}
	return !r.asked
}

// close ends the span of now; the mutex is held.
func (r *replica) close() {
	if r.counted {
		r.spans[len(r.spans)-1].To = time.Now()
	}
	r.counted = false
}

// probe asks the process whether it is ready, as long as ctx lasts. One that is stopped does not
// answer.
func (r *replica) probe(ctx context.Context) {
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		r.mutex.Lock()
		log, starts, running := r.log, r.starts, r.running
		r.mutex.Unlock()
		if !running {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		ready := r.ready(asking, log)
		cancel()
		r.probed(starts, ready)
	}
}

func (r *replica) probed(starts int, ready bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.starts != starts || !r.running {
		return
	}
	r.endpoint = ready && !r.paused
	if r.endpoint && !r.counted && !r.asked {
		r.counted = true
		r.spans = append(r.spans, model.Span{From: time.Now()})
	}
}

// isEndpoint reports whether a Service would connect to it.
func (r *replica) isEndpoint() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.endpoint
}

// ready is the times in which it was ready, without an interruption.
func (r *replica) readyTimes() []model.Span {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.spans)
}

// signal ends the process; a replica that is held is not started again until it is released.
func (r *replica) signal(send func(*exec.Cmd) error, hold bool) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.held = r.held || hold
	if !r.running {
		return nil
	}
	r.asked = true
	r.close()
	return done(send(r.now))
}

// release starts a replica that was held again.
func (r *replica) release() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.held = false
	r.changed.Broadcast()
}

// pause stops the process until it is resumed.
func (r *replica) pause() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.running {
		return nil
	}
	r.paused = true
	r.close()
	return done(proc.Pause(r.now))
}

func (r *replica) resume() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.paused = false
	if !r.running {
		return nil
	}
	return done(proc.Resume(r.now))
}

// done is the error of a signal, nil if the process has ended before.
func done(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// end kills the process for good.
func (r *replica) end() {
	r.mutex.Lock()
	r.over = true
	if r.now != nil {
		_ = proc.Kill(r.now) // it may have ended
	}
	r.changed.Broadcast()
	r.mutex.Unlock()
	<-r.ended
}

// ends counts the processes that ended by themselves.
func (r *replica) ends() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.itself
}

// leading reports whether a controller has said that it leads; one that has lost its Lease ends.
func leading(_ context.Context, log *proc.Log) bool {
	return strings.Contains(log.String(), `"msg":"leading"`)
}
