package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dra-steward/dra-steward/test/chart/controller"
	"github.com/dra-steward/dra-steward/test/envtest/internal/deployed"
	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/internal/proc"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

const (
	// faultPrefix is that of the names of faults.
	faultPrefix = "fault: "
	// recovery is the longest time until all replicas are ready and one leads.
	recovery = 2 * time.Minute
	// disruption is how long after a restart of the API server requests may fail.
	disruption = 30 * time.Second
)

// Faults disturb the replicas and the API server.
type faults struct {
	w                     *world
	random                *rand.Rand
	webhooks, controllers []*replica
	drivers               []*driver
	// restarts are the times in which the API server perhaps did not answer.
	restarts                 []model.Span
	kills, leaders, stops    int
	terminations, away, lost int
}

func (f *faults) String() string {
	ends := 0
	for _, r := range f.all() {
		ends += r.ends()
	}
	return fmt.Sprintf("%d kills (%d of a leader), %d terminations, %d stops, %d times no webhook, %d times none of ours, %d restarts of the API server, %d processes that ended by themselves",
		f.kills, f.leaders, f.terminations, f.stops, f.away, f.lost, len(f.restarts), ends)
}

func (f *faults) all() []*replica { return slices.Concat(f.webhooks, f.controllers) }

// newFaults installs two replicas of webhook and controller, as the chart has them.
func newFaults(t *testing.T, w *world, seed uint64) *faults {
	t.Helper()
	f := &faults{w: w, random: rand.New(rand.NewPCG(seed, 1))}
	values := map[string]any{"patches": map[string]any{"mode": "materialize"}}
	deployment, err := deployed.Deploy(t.Context(), w.Cluster, values)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		r, err := deployment.Replica()
		if err != nil {
			t.Fatal(err)
		}
		f.webhooks = append(f.webhooks, begin(t, &replica{name: fmt.Sprint("webhook ", i), args: r.Args, address: r.Address,
			ready: func(ctx context.Context, _ *proc.Log) bool { return r.Ready(ctx) }}))
	}
	args, err := controller.Install(t.Context(), w.Cluster, values)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		f.controllers = append(f.controllers, begin(t, &replica{name: fmt.Sprint("controller ", i), args: args, ready: leading}))
	}
	f.calm(t)
	if err := deployment.Expose(t.Context(), newService(t, f.webhooks).address()); err != nil {
		t.Fatal(err)
	}
	return f
}

// calm waits until both webhooks are ready and a controller leads.
func (f *faults) calm(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, recovery, true, func(context.Context) (bool, error) {
		return f.webhooks[0].isEndpoint() && f.webhooks[1].isEndpoint() && f.leader() != nil, nil
	})
	if err != nil {
		t.Fatalf("the replicas do not become ready: %v", err)
	}
}

// leader is the controller that leads, or nil.
func (f *faults) leader() *replica {
	for _, r := range f.controllers {
		if r.isEndpoint() {
			return r
		}
	}
	return nil
}

// run disturbs until ctx ends.
func (f *faults) run(ctx context.Context) error {
	for {
		longrun.Until(ctx, time.Now().Add(time.Duration(1000+f.random.IntN(4000))*time.Millisecond))
		if ctx.Err() != nil {
			return nil
		}
		name, disturb := f.next()
		f.w.note(faultPrefix+name, "begins")
		if err := disturb(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.w.note(faultPrefix+name, "ends")
	}
}

// next chooses a fault by its weight.
func (f *faults) next() (name string, disturb func(context.Context) error) {
	all := []struct {
		name    string
		weight  int
		disturb func(context.Context) error
	}{
		{"kill of a webhook", 22, func(context.Context) error { return f.kill(f.pick(f.webhooks)) }},
		{"kill of both webhooks", 8, func(context.Context) error { return f.kill(f.webhooks...) }},
		{"kill of the leader", 14, func(context.Context) error { return f.kill(f.controllers[f.leading()]) }},
		{"kill of the standby", 8, func(context.Context) error { return f.kill(f.controllers[1-f.leading()]) }},
		{"kill of both controllers", 6, func(context.Context) error { return f.kill(f.controllers...) }},
		{"stop of a webhook", 10, func(ctx context.Context) error { return f.stop(ctx, f.pick(f.webhooks), 8) }},
		{"stop of the leader", 6, func(ctx context.Context) error { return f.stop(ctx, f.controllers[f.leading()], 20) }},
		{"stop of the standby", 2, func(ctx context.Context) error { return f.stop(ctx, f.controllers[1-f.leading()], 20) }},
		{"termination", 8, func(context.Context) error { return f.terminate(f.pick(f.all())) }},
		{"no webhook", 12, f.withoutWebhook},
		{"none of ours, slices deleted", 5, f.withoutAny},
		{"kill of both webhooks, slices deleted", 6, f.withoutMemory},
		{"restart of the API server", 2, f.restart},
	}
	sum := 0
	for _, a := range all {
		sum += a.weight
	}
	n := f.random.IntN(sum)
	for _, a := range all {
		if n -= a.weight; n < 0 {
			return a.name, a.disturb
		}
	}
	return "", nil
}

func (f *faults) pick(from []*replica) *replica { return from[f.random.IntN(len(from))] }

// leading is the number of the controller that leads, or of any.
func (f *faults) leading() int {
	if i := slices.Index(f.controllers, f.leader()); i >= 0 {
		return i
	}
	return f.random.IntN(2)
}

func (f *faults) kill(all ...*replica) (err error) {
	for _, r := range all {
		if f.kills++; r == f.leader() {
			f.leaders++
		}
		err = errors.Join(err, r.signal(proc.Kill, false))
	}
	return err
}

func (f *faults) terminate(r *replica) error {
	f.terminations++
	return r.signal(proc.Terminate, false)
}

// stop stops a process for up to so many seconds.
func (f *faults) stop(ctx context.Context, r *replica, seconds int) error {
	f.stops++
	if err := r.pause(); err != nil {
		return err
	}
	longrun.Until(ctx, time.Now().Add(time.Duration(500+f.random.IntN(seconds*1000-500))*time.Millisecond))
	return r.resume()
}

// withoutWebhook is a time in which no webhook runs.
func (f *faults) withoutWebhook(ctx context.Context) error {
	f.away++
	err := f.hold(f.webhooks, proc.Kill)
	longrun.Until(ctx, time.Now().Add(time.Duration(2000+f.random.IntN(10_000))*time.Millisecond))
	release(f.webhooks)
	return err
}

// withoutAny is a time in which none of the replicas runs, and the slices of a driver are deleted.
func (f *faults) withoutAny(ctx context.Context) error {
	d := f.drivers[f.random.IntN(len(f.drivers))]
	f.lost++
	err := f.hold(f.all(), proc.Kill)
	all, listed := f.w.slices(ctx, d.name)
	err = errors.Join(err, listed, f.w.deleteSlices(ctx, all))
	longrun.Until(ctx, time.Now().Add(time.Duration(2000+f.random.IntN(8000))*time.Millisecond))
	release(f.all())
	return err
}

// withoutMemory deletes the slices of a driver, and kills both webhooks before it creates them again:
// only the leader remembers them then.
func (f *faults) withoutMemory(ctx context.Context) error {
	d := f.drivers[f.random.IntN(len(f.drivers))]
	all, err := f.w.slices(ctx, d.name)
	return errors.Join(err, f.w.deleteSlices(ctx, all), f.kill(f.webhooks...))
}

// hold ends processes, which are not started again until they are released.
func (f *faults) hold(all []*replica, send func(*exec.Cmd) error) (err error) {
	for _, r := range all {
		if f.kills++; r == f.leader() {
			f.leaders++
		}
		err = errors.Join(err, r.signal(send, true))
	}
	return err
}

func release(all []*replica) {
	for _, r := range all {
		r.release()
	}
}

// restart restarts the API server.
func (f *faults) restart(ctx context.Context) error {
	from := time.Now()
	err := f.w.RestartAPIServer(context.WithoutCancel(ctx))
	f.restarts = append(f.restarts, model.Span{From: from, To: time.Now().Add(disruption)})
	return err
}

// spans are the times in which a replica of the webhook was ready or a controller led, and those of
// controllers alone.
func (f *faults) spans() (running, led []model.Span) {
	for _, r := range f.webhooks {
		running = append(running, r.readyTimes()...)
	}
	for _, r := range f.controllers {
		led = append(led, r.readyTimes()...)
	}
	return append(running, led...), led
}
