package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
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

// roundLength is how long operations and faults go on until the slices are checked.
const roundLength = 40 * time.Second

// TestPatchCampaign: whatever drivers and patches do, and while replicas are killed, restarted and
// stopped, slices come to contain what their drivers publish and what patches say; and after the last
// patch is gone and the driver has published once, what it publishes.
func TestPatchCampaign(t *testing.T) {
	run := longrun.New(t, "random histories of patches")
	c := newCampaign(t, run.Seed)
	end := time.Now().Add(run.Length)
	for last := false; !last; {
		c.round(t)
		if t.Context().Err() != nil {
			return
		}
		last = !time.Now().Add(roundLength).Before(end)
		c.checkPatched(t)
		switch c.random.IntN(3) {
		case 0:
			c.checkLost(t)
		case 1:
			c.checkKilled(t)
		}
		if last || c.random.IntN(3) > 0 {
			c.checkFreed(t)
		}
	}
	t.Logf("seed %d, %s: %s", run.Seed, run.Length, c)
	c.record(t, run)
}

// A campaign is one run.
type campaign struct {
	w       *world
	random  *rand.Rand
	drivers []*driver
	patcher *patcher
	faults  *faults
	audit   *audit
	// checks count comparisons of all slices, compared the slices in them.
	checks, compared     int
	excused, differences int
	// slowest is the longest time until the slices were as they must be, and quiet.
	slowest time.Duration
}

func newCampaign(t *testing.T, seed uint64) *campaign {
	t.Helper()
	w := start(t)
	c := &campaign{w: w, random: rand.New(rand.NewPCG(seed, 0)), audit: newAudit(w), faults: newFaults(t, w, seed)}
	for i := range driverDelays() {
		c.drivers = append(c.drivers, newDriver(t, w, seed, i))
	}
	c.patcher = newPatcher(t, w, seed, c.drivers)
	c.faults.drivers = c.drivers
	for _, d := range c.drivers {
		if err := d.start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, d := range c.drivers {
			d.stop()
		}
	})
	return c
}

// String sums up the run.
func (c *campaign) String() string {
	return fmt.Sprintf("%d operations (%s); %s; %d writes of slices, %d of them not answered by the webhook; %d checks of %d slices, the slowest after %s; %d excused, %d differences",
		c.w.operations(), c.w.operationList(), c.faults, c.audit.writes, c.audit.failedOpen, c.checks, c.compared, c.slowest.Round(time.Second), c.excused, c.differences)
}

// round lets drivers, patches and faults change for a while, and waits until all replicas run.
func (c *campaign) round(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), roundLength)
	defer cancel()
	var running sync.WaitGroup
	also := func(run func(context.Context) error) {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, d := range c.drivers {
		also(d.run)
	}
	also(c.patcher.run)
	also(c.faults.run)
	running.Wait()
	c.faults.calm(t)
}
