package devicereaction

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A cluster is what the reactions of one pass share.
type cluster struct {
	view   *tracker.Snapshot
	drains []*v1alpha1.DeviceDrain
	// tainted are the devices that have taints, once a reaction asks for them.
	tainted func() []tracker.Device
	// driverDevices is computed where a device is sick.
	driverDevices func() map[string]int
	// health is what pods and claims report, once it is asked for.
	health   func() *health.Records
	bindings func() *reaction.Bindings
}

// snapshot reads what the reactions of a pass share. Steps of the pass add their drains.
func (c *Controller) snapshot(now time.Time) *cluster {
	all := &cluster{view: c.options.Tracker.Snapshot(), drains: c.made.All(time.Now())}
	all.tainted = sync.OnceValue(func() []tracker.Device { return reaction.TaintedDevices(all.view) })
	all.driverDevices = sync.OnceValue(func() map[string]int { return guard.PublishedDevices(all.view.PublishedSlices()) })
	all.health = sync.OnceValue(c.readHealth)
	all.bindings = sync.OnceValue(func() *reaction.Bindings { return c.readBindings(now) })
	return all
}

// readHealth reads what pods and claims report.
func (c *Controller) readHealth() *health.Records {
	records := &health.Records{}
	for _, claim := range placement.Stored[*resourceapi.ResourceClaim](c.options.Claims.GetStore()) {
		records.AddClaim(claim)
	}
	for _, pod := range placement.Stored[*corev1.Pod](c.options.Pods.GetStore()) {
		records.AddPod(pod, c.options.Usage.Claim)
	}
	return records
}

// gather finds out what there is to decide about.
func (c *Controller) gather(ctx context.Context, r *v1alpha1.DeviceReaction, all *cluster, now time.Time) reaction.Input {
	view := all.view
	in := reaction.Input{Reaction: r, Now: now, NotCreated: c.notCreated[r.Name], Others: map[v1alpha1.DeviceName]string{}}
	if err := c.options.Tracker.Ready(); err != nil {
		in.Unknown = err.Error()
		return in
	}
	if in.Causes = reaction.Find(r, reaction.Sources{View: view, Tainted: all.tainted, Nodes: c.nodes(), Health: all.health, Bindings: all.bindings}, &c.compiler); in.Unknown != "" {
		return in
	}
	in.Published = func(name v1alpha1.DeviceName) bool {
		_, published := view.Device(name.Driver, name.Pool, name.Device)
		return published
	}
	in.Hit = func(name v1alpha1.DeviceName) guard.Hit {
		return c.options.Usage.ImpactOn(slices.Values(c.devices(r, name, view)), nil).Hit()
	}
	for _, d := range all.drains {
		in.AddDrain(d, r.Name)
	}
	if len(in.Sick)+len(r.Status.Devices)+len(in.Drains) == 0 {
		return in
	}
	in.Proofs = c.proofs(ctx, r, all, now)
	c.driverPods(&in, all)
	in.DriverDevices, in.Begun = all.driverDevices(), c.options.Beginnings.Begun(now, c.options.Window)
	in.Window = guard.Window{Length: c.options.Window, Thresholds: c.options.Thresholds, Published: func(driver string) int { return in.DriverDevices[driver] }}
	return in
}

// nodes returns a function that lists the nodes, nil while they are not read.
func (c *Controller) nodes() func() []*corev1.Node {
	if !c.options.Nodes.HasSynced() {
		return nil
	}
	return func() []*corev1.Node { return placement.Stored[*corev1.Node](c.options.Nodes.GetStore()) }
}

// devices are those that a drain of a device drains.
func (c *Controller) devices(r *v1alpha1.DeviceReaction, name v1alpha1.DeviceName, view *tracker.Snapshot) []usage.DeviceID {
	all := []usage.DeviceID{usage.DeviceID(name)}
	if r.Spec.Then.WithPartitions {
		all = append(all, siblings.Of(view.PublishedSlices(), slices.Values(all))...)
	}
	return all
}

// newest is a reaction as it was read or written last, or nil.
func (c *Controller) newest(name string) *v1alpha1.DeviceReaction {
	object, exists, err := c.options.Reactions.GetStore().GetByKey(name)
	read, ok := object.(*v1alpha1.DeviceReaction)
	if err != nil || !exists || !ok {
		return nil
	}
	return c.written.Newest(read)
}

// sameConditions reports whether an update of a node changed no condition.
func sameConditions(old, object any) bool {
	a, is := old.(*corev1.Node)
	b, also := object.(*corev1.Node)
	return is && also && slices.Equal(a.Status.Conditions, b.Status.Conditions)
}
