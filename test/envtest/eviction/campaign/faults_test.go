package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
)

const (
	// succession is the longest time without a leader after one is lost: a process starts,
	// finds a Lease that another one holds, waits until it is over, takes it, and lists.
	succession = startOfProcess + leaseDuration + retryPeriod + listing
	// startOfProcess is that of a program on a busy machine.
	startOfProcess = 8 * time.Second
	// leaseDuration and retryPeriod are those of the program; a period has jitter.
	leaseDuration = 15 * time.Second
	retryPeriod   = 2400 * time.Millisecond
	listing       = 8 * time.Second
	// watching is the longest time after which a client that found no API server tries again.
	watching = 30 * time.Second
)

// Faults disturb the replicas and the API server.
type faults struct {
	w        *world
	random   *rand.Rand
	replicas []*replica
	// tainted receives when a rule that may evict pods was written, and when a drain evicts.
	tainted <-chan struct{}
	// unled and stale are those of the oracle.
	unled, stale            []oracle.Span
	kills, leaders          int
	terminations, cuts, api int
}

func (f *faults) String() string {
	ends := -f.terminations
	for _, r := range f.replicas {
		ends += len(r.endTimes())
	}
	return fmt.Sprintf("%d kills (%d of a leader), %d terminations, %d cuts, %d restarts of the API server, %d processes that ended by themselves",
		f.kills, f.leaders, f.terminations, f.cuts, f.api, ends)
}

// newFaults installs two replicas, which evict in mode full, and waits for a leader.
func newFaults(t *testing.T, w *world, seed uint64, tainted <-chan struct{}) *faults {
	t.Helper()
	args, err := controller.Install(t.Context(), w.Cluster, map[string]any{
		"controller": map[string]any{"mode": "full", "actSince": "always", "replicaCount": 2,
			"drains": map[string]any{"deadlineDelete": true}},
		// The circuit breaker is not what is tested.
		"guard": map[string]any{"thresholds": map[string]any{"pods": 1_000_000, "namespaces": 1000, "percent": 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{w: w, tainted: tainted, random: rand.New(rand.NewPCG(seed, 2)), replicas: []*replica{begin(t, args), begin(t, args)}}
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		return f.leader() >= 0, nil
	})
	if err != nil {
		t.Fatalf("no replica leads: %v", err)
	}
	return f
}

// leader is the replica that leads, or -1.
func (f *faults) leader() int {
	for i, r := range f.replicas {
		if r.leads() {
			return i
		}
	}
	return -1
}

// run disturbs until ctx ends: about once a minute the leader, and between that the standby.
func (f *faults) run(ctx context.Context, t *testing.T) {
	for {
		for _, disturb := range f.round() {
			longrun.Until(ctx, time.Now().Add(disturb.after))
			if ctx.Err() != nil {
				return
			}
			if err := disturb.fault(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("%s: %v", disturb.name, err)
				return
			}
		}
	}
}

// disturbances are those of the oracle: also a process that ends by itself was perhaps the
// leader, without a Lease for as long as that lasts.
func (f *faults) disturbances() (unled, stale []oracle.Span) {
	unled = slices.Clone(f.unled)
	for _, r := range f.replicas {
		for _, end := range r.endTimes() {
			unled = append(unled, oracle.Span{From: end.Add(-leaseDuration), To: end.Add(succession)})
		}
	}
	return unled, f.stale
}

type disturbance struct {
	name  string
	after time.Duration
	fault func(context.Context) error
}

// round is what happens in about a minute: one fault that costs the leader, then time for the
// next one to begin, then kills of the standby while the leader works.
func (f *faults) round() (all []disturbance) {
	some := func(least, more int) time.Duration {
		return time.Duration(least*1000+f.random.IntN(more*1000)) * time.Millisecond
	}
	first := disturbance{"kill of the leader", some(1, 8), f.killAtWork}
	switch n := f.random.IntN(100); {
	case n < 10:
		first.name, first.fault = "kill of both", f.killBoth
	case n < 20:
		first.name, first.fault = "termination of the leader", func(context.Context) error { return f.terminate(f.leader()) }
	case n < 40:
		first.name, first.fault = "cut", f.cut
	case n < 50:
		first.name, first.fault = "restart of the API server", f.restart
	}
	all = append(all, first)
	after := some(20, 10)
	for range 3 {
		all = append(all, disturbance{"kill of the standby", after, f.killStandby})
		after = some(4, 8)
	}
	return all
}

// killAtWork kills the leader, in two of three cases while it evicts for a rule.
func (f *faults) killAtWork(ctx context.Context) error {
	if f.random.IntN(3) > 0 {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		select {
		case <-f.tainted: // one from before
		default:
		}
		select {
		case <-f.tainted:
		case <-ctx.Done():
		}
		longrun.Until(ctx, time.Now().Add(time.Duration(f.random.IntN(500))*time.Millisecond))
	}
	return f.kill(f.leader())
}

func (f *faults) killBoth(context.Context) error { return errors.Join(f.kill(0), f.kill(1)) }

func (f *faults) killStandby(context.Context) error {
	if leader := f.leader(); leader >= 0 {
		return f.kill(1 - leader)
	}
	return f.kill(f.random.IntN(2))
}

// kill kills the process of a replica, or of any if there is no leader.
func (f *faults) kill(i int) error {
	if i < 0 {
		i = f.random.IntN(2)
	}
	led, err := f.signal(i, proc.Kill)
	f.kills++
	if led {
		f.leaders++
	}
	return err
}

// terminate asks a replica to end.
func (f *faults) terminate(i int) error {
	_, err := f.signal(max(i, 0), proc.Terminate)
	f.terminations++
	return err
}

// signal ends a process and reports whether it led. Unless the other one leads all the time,
// there is no leader for a while.
func (f *faults) signal(i int, send func(*exec.Cmd) error) (led bool, err error) {
	other := f.replicas[1-i]
	_, _, before := other.process()
	otherLed, from := other.leads(), time.Now()
	process, log, _ := f.replicas[i].process()
	if err = send(process); errors.Is(err, os.ErrProcessDone) { // it has lost its Lease
		err = nil
	}
	led = leading(log)
	_, _, after := other.process()
	if led || !otherLed || before != after {
		f.unled = append(f.unled, oracle.Span{From: from, To: time.Now().Add(succession)})
	}
	return led, err
}

// cut stops a process for a while: most often the leader, at times for longer than its Lease.
func (f *faults) cut(ctx context.Context) error {
	i := max(f.leader(), 0)
	if f.random.IntN(4) == 0 {
		i = 1 - i
	}
	from := time.Now()
	process, _, _ := f.replicas[i].process()
	if err := proc.Pause(process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	longrun.Until(ctx, from.Add(time.Duration(1000+f.random.IntN(20_000))*time.Millisecond))
	if err := proc.Resume(process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	f.cuts++
	f.unled = append(f.unled, oracle.Span{From: from, To: time.Now().Add(succession)})
	f.stale = append(f.stale, oracle.Span{From: from, To: time.Now().Add(observation)})
	return nil
}

// restart restarts the API server.
func (f *faults) restart(ctx context.Context) error {
	from := time.Now()
	err := f.w.RestartAPIServer(ctx)
	f.api++
	f.unled = append(f.unled, oracle.Span{From: from, To: time.Now().Add(watching + succession)})
	f.stale = append(f.stale, oracle.Span{From: from, To: time.Now().Add(watching)})
	return err
}
