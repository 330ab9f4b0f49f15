package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/test/envtest/internal/longrun"
	"github.com/dra-steward/dra-steward/test/envtest/materialize/campaign/internal/model"
)

// driverUser is the end of the names of users that drivers have.
const driverUser = "-plugin"

// driverDelays are how long each driver waits before it looks at what it has written; by default
// they wait 30 s.
func driverDelays() []time.Duration {
	return []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}
}

// A driver publishes pools with upstream's code.
type driver struct {
	w          *world
	name, user string
	random     *rand.Rand
	delay      time.Duration
	client     kubernetes.Interface
	plugin     *resourceslice.Controller
	serial     int
	// truth has the devices of each slice of each pool, as the driver has found them.
	truth map[string][][]resourceapi.Device
	// renewed is when it was started or has published last.
	renewed time.Time

	mutex sync.Mutex
	// refusals are errors that are neither conflicts nor of an API server that is away.
	refusals []error
}

func newDriver(t *testing.T, w *world, seed uint64, number int) *driver {
	t.Helper()
	name := fmt.Sprintf("driver-%d.example.com", number)
	d := &driver{w: w, name: name, user: name + driverUser, random: rand.New(rand.NewPCG(seed, uint64(10+number))),
		delay: driverDelays()[number], truth: map[string][][]resourceapi.Device{}}
	config, err := w.User(d.user, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	d.client = kubernetes.NewForConfigOrDie(config)
	for i := range 1 + d.random.IntN(3) {
		d.addPool(fmt.Sprint("pool-", i))
	}
	return d
}

// resources are the truth in the form of upstream's code, which copies it.
func (d *driver) resources() *resourceslice.DriverResources {
	r := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{}}
	for name, all := range d.truth {
		pool := resourceslice.Pool{AllNodes: true}
		for _, devices := range all {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: devices})
		}
		r.Pools[name] = pool
	}
	return r
}

// start starts the driver, which knows nothing but the truth.
func (d *driver) start(ctx context.Context) (err error) {
	// By default the pause after errors doubles up to 1,000 s, longer than a check waits.
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 5*time.Second))
	d.plugin, err = resourceslice.StartController(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()), resourceslice.Options{
		DriverName: d.name, KubeClient: d.client, Resources: d.resources(), SyncDelay: &d.delay, ErrorHandler: d.report, Queue: queue,
	})
	d.renewed = time.Now()
	return err
}

func (d *driver) stop() {
	if d.plugin != nil {
		d.plugin.Stop()
		d.plugin = nil
	}
}

// report receives the errors of the driver.
func (d *driver) report(_ context.Context, err error, _ string) {
	if dropped := (*resourceslice.DroppedFieldsError)(nil); errors.As(err, &dropped) || longrun.Passing(err) || apierrors.IsNotFound(err) || errors.Is(err, context.Canceled) {
		return
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.refusals = append(d.refusals, err)
}

// takeRefusals returns those since the last call.
func (d *driver) takeRefusals() []error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	all := d.refusals
	d.refusals = nil
	return all
}

// publish publishes the truth.
func (d *driver) publish() {
	d.plugin.Update(d.resources())
	d.renewed = time.Now()
}

// restart forgets everything.
func (d *driver) restart(ctx context.Context) error {
	d.stop()
	return d.start(ctx)
}

// pools are the truth in the form of the model.
func (d *driver) pools() (all []model.Pool) {
	for name, devices := range d.truth {
		pool := model.Pool{Driver: d.name, Name: name}
		for _, slice := range devices {
			pool.Slices = append(pool.Slices, model.Of(d.name, slice))
		}
		all = append(all, pool)
	}
	return all
}

// run operates until ctx ends.
func (d *driver) run(ctx context.Context) error {
	always := context.WithoutCancel(ctx)
	for {
		longrun.Until(ctx, time.Now().Add(time.Duration(300+d.random.IntN(2500))*time.Millisecond))
		if ctx.Err() != nil {
			return nil
		}
		name, operate := d.next()
		if err := operate(always); err != nil {
			return fmt.Errorf("%s: %s: %w", d.name, name, err)
		}
		d.w.note(name, "%s", d.name)
	}
}

// next chooses an operation by its weight.
func (d *driver) next() (name string, operate func(context.Context) error) {
	publishing := func(change func()) func(context.Context) error {
		return func(context.Context) error {
			change()
			d.publish()
			return nil
		}
	}
	operations := []struct {
		name    string
		weight  int
		operate func(context.Context) error
	}{
		{"values published", 30, publishing(d.change)},
		{"values published again", 3, publishing(func() {})},
		{"devices added", 6, publishing(d.addDevice)},
		{"devices dropped", 6, publishing(d.dropDevice)},
		{"devices moved", 4, publishing(d.moveDevice)},
		{"slices added", 3, publishing(d.addSlice)},
		{"slices dropped", 3, publishing(d.dropSlice)},
		{"pools added or dropped", 2, publishing(d.addOrDropPool)},
		{"drivers restarted", 6, d.restart},
		{"drivers restarted with other values", 6, d.restartChanged},
		{"slices deleted by hand", 8, d.loseSlices},
	}
	all := 0
	for _, o := range operations {
		all += o.weight
	}
	n := d.random.IntN(all)
	for _, o := range operations {
		if n -= o.weight; n < 0 {
			return o.name, o.operate
		}
	}
	return "", nil
}

// restartChanged is a driver that finds other values after a time in which it did not run.
func (d *driver) restartChanged(ctx context.Context) error {
	d.stop()
	longrun.Until(ctx, time.Now().Add(time.Duration(d.random.IntN(3000))*time.Millisecond))
	d.change()
	return d.start(ctx)
}

// loseSlices is a user who deletes one slice of the driver, or all.
func (d *driver) loseSlices(ctx context.Context) error {
	all, err := d.w.slices(ctx, d.name)
	if err != nil || len(all) == 0 {
		return err
	}
	if d.random.IntN(2) == 0 {
		i := d.random.IntN(len(all))
		all = all[i : i+1]
	}
	return d.w.deleteSlices(ctx, all)
}
