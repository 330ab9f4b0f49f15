package campaign

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
)

// actAsProgram makes this test the program, so that it can be killed.
const actAsProgram = "DRA_STEWARD_ACT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		os.Exit(cli.Run(context.Background(), os.Args[1:], cmdutil.Streams{Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

const (
	// work is the time that an undisturbed leader has for an eviction.
	work = 20 * time.Second
	// observation is the time that an undisturbed leader has to observe a change.
	observation = 5 * time.Second
)

// TestEvictionCampaign: the controller evicts every pod that KEP-5055 says it must, each
// once, and no other, whatever taints, tolerations and claims change, and carries out
// DeviceDrains as docs/drain.md says, while replicas are killed, restarted and stopped, and
// the API server restarts.
func TestEvictionCampaign(t *testing.T) {
	run := longrun.New(t, "random evictions and drains")
	w := start(t)
	s := newScene(w, run.Seed)
	s.publish(t)
	d := newDrainScene(w, run.Seed, s.tainted)
	d.publish(t)
	f := newFaults(t, w, run.Seed, s.tainted)
	ctx, cancel := context.WithTimeout(t.Context(), run.Length)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { f.run(ctx, t) })
	running.Go(func() { d.run(ctx, t) })
	s.run(ctx, t)
	running.Wait()
	if t.Failed() {
		return
	}
	h := s.history()
	h.Work, h.Observation = work, observation
	h.Unled, h.Stale = f.disturbances()
	d.h.Unled, d.h.Stale = f.disturbances()
	end := h.Settled(time.Now().Add(maxSeconds*time.Second + observation))
	t.Logf("the last pods have until %s", end.UTC().Format("15:04:05"))
	d.watch(t.Context(), t, end)
	left := w.pods(t)
	h.Until, d.h.Until = time.Now(), time.Now()
	h.Unled, h.Stale = f.disturbances()
	d.h.Unled, d.h.Stale = f.disturbances()
	r := s.check(t, h, w.deletions(t), left)
	d.check(t)
	t.Logf("seed %d, %s: %s; %s; %s; %d requests repeated", run.Seed, run.Length, r, f, &s.script, w.repeated.Load())
	t.Logf("drains: %s; %s", d.summary(), &d.script)
	record(t, run, r, f)
	d.record(t, run, f)
	s.checkPlanted(t, h, r)
	d.checkPlanted(t)
}

// A result has the verdict of each pod, in the order of the pods.
type result struct {
	verdicts []oracle.Verdict
	counts   map[oracle.Outcome]int
	// evictions are the pods that were evicted.
	evictions int
	// gone are pods that neither the controller nor the test deleted.
	gone int
	// timedOut are evictions that the API server answered with 504 and carried out.
	timedOut int
}

func (r *result) String() string {
	var parts []string
	for _, o := range []oracle.Outcome{oracle.Evicted, oracle.Kept, oracle.Undecided, oracle.Missed, oracle.Wrong, oracle.Twice} {
		parts = append(parts, fmt.Sprintf("%d %s", r.counts[o], o))
	}
	return fmt.Sprintf("%d pods, %d evictions (%d answered with 504): %s", len(r.verdicts), r.evictions, r.timedOut, strings.Join(parts, ", "))
}

// check holds what was done against what the oracle says.
func (s *scene) check(t *testing.T, h *oracle.History, done map[string]*evidence, left map[types.UID]bool) *result {
	t.Helper()
	r := &result{counts: map[oracle.Outcome]int{}}
	for _, p := range s.all {
		e := done[string(p.uid)]
		if e == nil {
			e = &evidence{}
		}
		evictions := e.accepted
		if len(evictions) == 0 && len(e.timedOut) > 0 && !left[p.uid] {
			evictions = e.timedOut[:1]
			r.timedOut++
		}
		if len(evictions) > 0 {
			r.evictions++
		}
		v := h.Check(&p.Pod, evictions)
		r.verdicts = append(r.verdicts, v)
		r.counts[v.Outcome]++
		switch v.Outcome {
		case oracle.Missed, oracle.Wrong, oracle.Twice:
			t.Errorf("%s (%s) is %s; %s", p.Name, p.uid, v, p.describe())
		}
		if len(evictions) == 0 && p.End.Never() && !left[p.uid] {
			r.gone++
			t.Errorf("%s (%s) is gone, and nobody deleted it: %s", p.Name, p.uid, v)
		}
	}
	return r
}

// checkPlanted fails unless the oracle finds an eviction that is added to what happened and
// one that is left out.
func (s *scene) checkPlanted(t *testing.T, h *oracle.History, r *result) {
	t.Helper()
	wrong, missed := false, false
	for i, v := range r.verdicts {
		switch p := &s.all[i].Pod; {
		case v.Outcome == oracle.Kept && !wrong:
			if wrong = true; h.Check(p, []time.Time{p.Begin.Latest.Add(time.Second)}).Outcome != oracle.Wrong {
				t.Errorf("a planted eviction of %s is not found", p.Name)
			}
		case v.Outcome == oracle.Evicted && !missed:
			if missed = true; h.Check(p, nil).Outcome != oracle.Missed {
				t.Errorf("the missing eviction of %s is not found", p.Name)
			}
		}
	}
	if !wrong || !missed {
		t.Errorf("no pod was kept (%t) or none was evicted (%t)", !wrong, !missed)
	}
}
