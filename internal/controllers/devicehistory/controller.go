package devicehistory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/serving/metric"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// Options of a controller.
type Options struct {
	ConfigMaps coreclient.ConfigMapInterface
	// Prefix is that of the names of the ConfigMaps.
	Prefix string
	// Tracker is the view of the devices, Claims and Pods are informers. The caller runs them.
	Tracker      *tracker.Tracker
	Claims, Pods cache.SharedIndexInformer
	// Drains and Reactions are informers that the caller runs, or nil.
	Drains, Reactions cache.SharedIndexInformer
	// Metrics may be nil.
	Metrics *Metrics
	Logger  logr.Logger
}

const (
	// gather is how long changes are gathered.
	gather = 2 * time.Second
	// writeGap is the least time between two writes, so that there are at most six a minute.
	writeGap = 10 * time.Second
	// checkGap is the time between two reads of a shard that others may have changed.
	checkGap = time.Minute
	// farewell is how long a leader that ends may write.
	farewell = 2 * time.Second
)

// A Controller records the history of devices.
type Controller struct {
	Options
	mutex  sync.Mutex
	memory history.Memory
	// store is nil while another replica leads.
	store *history.Store
	dirty map[v1alpha1.DeviceName]struct{}
	// drains and reactions are the entries of each device; drainsChanged and reactionsChanged are
	// true if they are to be found again.
	drains, reactions               map[v1alpha1.DeviceName][]history.Entry
	drainsChanged, reactionsChanged bool
	stored                          [history.Shards]stored
}

// New prepares a controller, which remembers holders from now on. Call it before the informers run.
func New(o Options) (*Controller, error) {
	if o.ConfigMaps == nil || o.Prefix == "" || o.Tracker == nil || o.Claims == nil || o.Pods == nil {
		return nil, errors.New("history of devices: the client, the prefix, the view and the informers are required")
	}
	c := &Controller{Options: o, memory: history.Memory{Since: time.Now()}, dirty: map[v1alpha1.DeviceName]struct{}{}}
	_, err := o.Claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.claim(nil, object) },
		UpdateFunc: func(old, object any) { c.claim(old, object) },
		DeleteFunc: func(object any) { c.claim(object, nil) },
	})
	return c, err
}

// claim notes what a claim holds now.
func (c *Controller) claim(old, now any) {
	if gone, is := old.(cache.DeletedFinalStateUnknown); is {
		old = gone.Obj
	}
	before, _ := old.(*resourceapi.ResourceClaim)
	after, _ := now.(*resourceapi.ResourceClaim)
	had, has := devicesOf(before), devicesOf(after)
	if len(had)+len(has) == 0 {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(had) > 0 && (len(has) == 0 || before.UID != after.UID) {
		c.memory.Release(string(before.UID), time.Now())
	}
	if len(has) > 0 {
		h := holderOf(after, c.pod)
		if h.Since.IsZero() && before != nil && len(had) == 0 {
			h.Since = time.Now()
		}
		c.memory.Hold(h, has, time.Now())
	}
	if c.store == nil {
		return
	}
	for _, device := range slices.Concat(had, has) {
		if c.store.Has(device) {
			c.dirty[device] = struct{}{}
		}
	}
}

func (c *Controller) pod(namespace, name string) *corev1.Pod {
	object, _, _ := c.Pods.GetStore().GetByKey(namespace + "/" + name) // its errors are those of an indexer's key
	pod, _ := object.(*corev1.Pod)
	return pod
}

// slice marks the devices of a slice that have taints or a record.
func (c *Controller) slice(objects ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, object := range objects {
		slice, is := object.(*resourceapi.ResourceSlice)
		if !is {
			continue
		}
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			name := v1alpha1.DeviceName{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: d.Name}
			if len(d.Taints) > 0 || c.store.Has(name) {
				c.dirty[name] = struct{}{}
			}
		}
	}
}

// Run records until ctx ends. It can be called once.
func (c *Controller) Run(ctx context.Context) error {
	if !reconcile.WaitFor(ctx, "history of devices", c.Tracker.HasSyncedChecker(), c.Claims.HasSyncedChecker(), c.Pods.HasSyncedChecker()) {
		return nil
	}
	ticker := time.NewTicker(gather)
	defer ticker.Stop()
	for !c.begin(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(writeGap):
		}
	}
	handlers, err := c.listen()
	if err != nil {
		return fmt.Errorf("history of devices: %w", err)
	}
	defer handlers.Remove()
	next, check, shard := time.Time{}, time.Now().Add(checkGap), 0
	for {
		select {
		case <-ctx.Done():
			c.end(context.WithoutCancel(ctx))
			return nil
		case <-ticker.C:
		}
		now := time.Now()
		c.pass(now)
		if now.After(check) {
			c.expire(now)
			c.report(ctx, c.fetch(ctx, shard))
			check, shard = now.Add(checkGap), (shard+1)%history.Shards
		}
		if now.After(next) && c.writeOne(ctx) {
			next = time.Now().Add(writeGap)
		}
	}
}

// begin reads what is stored; until it has, nothing is written.
func (c *Controller) begin(ctx context.Context) bool {
	c.mutex.Lock()
	c.store = &history.Store{Dropped: func(r *history.Record) { c.memory.Return(r, time.Now()) }}
	c.mutex.Unlock()
	for shard := range history.Shards {
		if err := c.fetch(ctx, shard); err != nil {
			c.report(ctx, err)
			c.mutex.Lock()
			c.store, c.stored = nil, [history.Shards]stored{}
			c.mutex.Unlock()
			return false
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.store.Since.IsZero() {
		c.store.Since = time.Now().UTC().Truncate(time.Second)
		c.store.Change(0)
	}
	c.drainsChanged, c.reactionsChanged = true, true
	return true
}

// listen marks what changes.
func (c *Controller) listen() (*reconcile.Handlers, error) {
	var handlers reconcile.Handlers
	devices := c.Tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.slice(object) },
		UpdateFunc: func(old, object any) { c.slice(old, object) },
		DeleteFunc: func(object any) {
			if gone, is := object.(cache.DeletedFinalStateUnknown); is {
				object = gone.Obj
			}
			c.slice(object)
		},
	})
	handlers.OnRemove(func() { c.Tracker.RemoveEventHandler(devices) })
	for _, of := range []struct {
		informer cache.SharedIndexInformer
		changed  *bool
	}{{c.Drains, &c.drainsChanged}, {c.Reactions, &c.reactionsChanged}} {
		if of.informer == nil {
			continue
		}
		changed := func(any) {
			c.mutex.Lock()
			defer c.mutex.Unlock()
			*of.changed = true
		}
		if err := handlers.Add(of.informer, cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed}); err != nil {
			return nil, err
		}
	}
	return &handlers, nil
}

// pass compares the devices that have changed with their records.
func (c *Controller) pass(now time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.drainsChanged && synced(c.Drains) {
		c.replace(&c.drains, drainsOf(objects[*v1alpha1.DeviceDrain](c.Drains)))
		c.drainsChanged = false
	}
	if c.reactionsChanged && synced(c.Reactions) {
		c.replace(&c.reactions, reactionsOf(objects[*v1alpha1.DeviceReaction](c.Reactions)))
		c.reactionsChanged = false
	}
	view := c.Tracker.Snapshot()
	for device := range c.dirty {
		c.store.Observe(c.observe(device, view), now)
	}
	clear(c.dirty)
	c.Metrics.state(c.store)
}

func (c *Controller) expire(now time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.store.Expire(now)
	c.memory.Expire(now)
}

// observe is the present state of a device.
func (c *Controller) observe(name v1alpha1.DeviceName, view *tracker.Snapshot) history.Observation {
	d, published := view.Device(name.Driver, name.Pool, name.Device)
	o := history.Observation{Device: name, Unpublished: !published, Entries: slices.Concat(c.drains[name], c.reactions[name]), HoldersSince: c.memory.Since}
	if published {
		o.Node = taints.NodeOf(d)
		o.Entries = append(o.Entries, taintsOf(d, view)...)
	}
	if !synced(c.Drains) {
		o.Entries = append(o.Entries, c.store.Standing(name, history.Drain)...)
	}
	if !synced(c.Reactions) {
		o.Entries = append(o.Entries, c.store.Standing(name, history.Reaction)...)
	}
	if len(o.Entries) > 0 || c.store.Has(name) {
		o.Holders, o.Previous = c.memory.Holders(name), c.memory.Take(name)
	}
	return o
}

// replace takes over new entries, and marks the devices whose entries differ.
func (c *Controller) replace(had *map[v1alpha1.DeviceName][]history.Entry, now map[v1alpha1.DeviceName][]history.Entry) {
	if *had == nil { // what ended while no controller ran
		for _, device := range c.store.Open() {
			c.dirty[device] = struct{}{}
		}
	}
	for device, entries := range now {
		if !slices.EqualFunc((*had)[device], entries, history.Entry.Equal) {
			c.dirty[device] = struct{}{}
		}
	}
	for device := range *had {
		if _, has := now[device]; !has {
			c.dirty[device] = struct{}{}
		}
	}
	*had = now
}

// writeOne writes the shard that has changed and was written the longest ago. It reports whether there is one.
func (c *Controller) writeOne(ctx context.Context) bool {
	c.mutex.Lock()
	changed := c.store.Changed()
	slices.SortFunc(changed, func(a, b int) int { return c.stored[a].written.Compare(c.stored[b].written) })
	c.mutex.Unlock()
	if len(changed) == 0 {
		return false
	}
	err := c.write(ctx, changed[0])
	c.Metrics.wrote(err)
	c.report(ctx, err)
	return true
}

// end writes the remaining changes. The next leader finds those that cannot be written, if they still apply.
func (c *Controller) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	c.pass(time.Now())
	for range history.Shards {
		if ctx.Err() != nil || !c.writeOne(ctx) {
			return
		}
	}
}

func (c *Controller) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.Logger.Error(err, "Cannot store the history of devices; retrying")
	}
}

// synced reports whether there is an informer that knows what there was. Without one it is not known what
// has ended.
func synced(informer cache.SharedIndexInformer) bool { return informer != nil && informer.HasSynced() }

// objects are those of an informer.
func objects[T any](informer cache.SharedIndexInformer) (all []T) {
	for _, object := range informer.GetStore().List() {
		if typed, is := object.(T); is {
			all = append(all, typed)
		}
	}
	return all
}

// Metrics count records and writes.
type Metrics struct {
	devices, leftOut prometheus.Gauge
	writes           *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		devices: all.Gauge("dra_steward_history_devices",
			"Devices with a history: those that had a taint, a drain or a reaction within 30 days."),
		leftOut: all.Gauge("dra_steward_history_left_out_devices",
			"Devices whose history was left out within 30 days, because there is room for 10 MB."),
		writes: all.Counters("dra_steward_history_writes_total",
			"Writes of ConfigMaps with the history of devices, by result (written, failed).", "result"),
	}
	return m, all.Err()
}

func (m *Metrics) wrote(err error) {
	if m == nil {
		return
	}
	result := "written"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(result).Inc()
}

func (m *Metrics) state(l *history.Store) {
	if m == nil {
		return
	}
	m.devices.Set(float64(l.Len()))
	m.leftOut.Set(float64(l.Cut().Devices))
}
