package capacity

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Cluster is what is known of one.
type Cluster struct {
	// View has the devices, taints and classes.
	View   *tracker.Snapshot
	Claims []*resourceapi.ResourceClaim
	// Partial is true if there are claims that could not be read: a device that none of Claims
	// holds is unknown then.
	Partial bool
	// Nodes are where pods run. Nil are not known: the nodes that slices name are taken to
	// exist and to be ready.
	Nodes []*corev1.Node
	// Patched looks at devices as ResourceSlicePatches make them, as a kube-scheduler does
	// that is built with them.
	Patched bool
	// IncompletePools is true for a kube-scheduler before 1.35: it allocates devices of pools
	// of which slices are missing.
	IncompletePools bool
	// Gates are those of the scheduler. The zero value is the defaults of the newest
	// Kubernetes that is supported.
	Gates gates.Gates
	// Notes go into every report.
	Notes []string
}

// A Scope are the devices that a question is about. The zero value is all.
type Scope struct {
	// Class is the name of a DeviceClass that selects the devices.
	Class string
	// Driver publishes the devices.
	Driver string
}

// A State is why a device can or cannot be allocated. Each device is in one, the first that
// applies in this order.
type State string

const (
	// Held devices are allocated to a claim. A device that claims share is held if no share of
	// default size is left.
	Held State = "Held"
	// Unreachable devices are in a pool that is incomplete or invalid, or on a node that is
	// missing, not ready or unschedulable.
	Unreachable State = "Unreachable"
	// PatchedAway devices are in the class as their driver publishes them, but not as
	// ResourceSlicePatches change them.
	PatchedAway State = "PatchedAway"
	// Tainted devices have a taint with the effect NoSchedule or NoExecute.
	Tainted State = "Tainted"
	// Excluded devices are free, but the counters that they share with others do not suffice:
	// other devices hold them, or are counted as allocatable.
	Excluded State = "Excluded"
	// Unknown devices are free as far as is known; claims that could hold them could not be
	// read.
	Unknown State = "Unknown"
	// Allocatable devices can be allocated now, all of them together.
	Allocatable State = "Allocatable"
)

// States are all, in their order.
func States() []State {
	return []State{Held, Unreachable, PatchedAway, Tainted, Excluded, Unknown, Allocatable}
}

// A Reason is why a device is unreachable.
type Reason string

const (
	PoolIncomplete    Reason = "PoolIncomplete"
	PoolInvalid       Reason = "PoolInvalid"
	NodeMissing       Reason = "NodeMissing"
	NodeNotReady      Reason = "NodeNotReady"
	NodeUnschedulable Reason = "NodeUnschedulable"
	// FeatureOff devices need a feature that the scheduler does not have.
	FeatureOff Reason = "FeatureOff"
)

// A device is one of the newest generation of its pool.
type device struct {
	tracker tracker.Device
	slice   *resourceapi.ResourceSlice
	// seen is what the scheduler sees of it.
	seen  *resourceapi.Device
	pool  *pool
	place place
	state State
	// reason is set if it is unreachable, effect if it is tainted.
	reason Reason
	effect resourceapi.DeviceTaintEffect
	// room is how many allocations of default size fit; shared devices can have more than
	// one. Unlimited ones consume no capacity.
	room      int
	unlimited bool
	shared    bool
	// inUse is true if claims have the device or shares of it: it consumes its counters.
	inUse   bool
	holding *holding
	model   string
}

func (d *device) id() usage.DeviceID {
	return usage.DeviceID{Driver: d.slice.Spec.Driver, Pool: d.slice.Spec.Pool.Name, Device: d.seen.Name}
}

// A survey is the devices of a cluster, each with its state as far as it does not depend on
// the scope of a question.
type survey struct {
	Cluster
	features structured.Features
	devices  []*device
	held     holdings
	cache    *placement.Cache
	// ofDriver are the results of expressions that depend on the driver only.
	ofDriver map[driverExpression]bool
	// solved are packings by their keys, work how many comparisons are left.
	solved map[string]packed
	work   int
}

func (c Cluster) survey(ctx context.Context) (*survey, error) {
	features := placement.Known(c.Gates).Features
	s := &survey{Cluster: c, features: features, held: holdingsOf(c.Claims), ofDriver: map[driverExpression]bool{}, solved: map[string]packed{}, work: totalWork}
	s.cache = placement.NewCache(features)
	places := newPlaces(c.Nodes)
	pools := s.pools()
	for _, slice := range placement.Seen(c.View, c.Patched) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := pools[placement.PoolOf(slice)]
		if slice.Spec.Pool.Generation == p.Generation {
			s.add(slice, p, places)
		}
	}
	for _, p := range pools {
		p.consume()
	}
	return s, nil
}

// add adds the devices of a slice.
func (s *survey) add(seen *resourceapi.ResourceSlice, p *pool, places *places) {
	reason := s.unusable(seen)
	i := 0
	for d := range s.View.SliceDevices(seen.Name) {
		one := &device{tracker: d, slice: seen, seen: &seen.Spec.Devices[i], pool: p}
		i++
		one.place = places.of(seen, one.seen)
		one.model = modelOf(one.seen)
		one.reason = cmp.Or(reason, p.reason(s.IncompletePools), one.unusable(s.features), one.place.reason)
		s.setState(one)
		s.devices = append(s.devices, one)
		p.devices = append(p.devices, one)
	}
}

// setState finds the state of a device as far as it does not depend on others.
func (s *survey) setState(d *device) {
	h := s.held.get(d.id())
	h.published = true
	d.holding = h
	d.inUse = h.Exclusive || h.Shares > 0
	d.shared = s.features.ConsumableCapacity && d.seen.AllowMultipleAllocations != nil && *d.seen.AllowMultipleAllocations
	d.room = 1
	if d.shared {
		d.room, d.unlimited = room(d.seen, h)
	}
	if s.features.DeviceTaints {
		d.effect = effectOf(d.seen.Taints)
	}
	switch {
	case h.Full(d.seen), d.inUse && !s.features.ConsumableCapacity:
		d.state, d.room, d.unlimited = Held, 0, false
	case d.reason != "":
		d.state = Unreachable
	case d.effect != "":
		d.state = Tainted
	case s.Partial:
		d.state = Unknown
	default:
		d.state = Allocatable
	}
}

// effectOf is the strongest effect that keeps a device from being allocated.
func effectOf(taints []resourceapi.DeviceTaint) (effect resourceapi.DeviceTaintEffect) {
	for _, taint := range taints {
		switch taint.Effect {
		case resourceapi.DeviceTaintEffectNoExecute:
			return taint.Effect
		case resourceapi.DeviceTaintEffectNoSchedule:
			effect = taint.Effect
		}
	}
	return effect
}

// unusable returns why the scheduler ignores a slice.
func (s *survey) unusable(slice *resourceapi.ResourceSlice) Reason {
	if !s.features.PartitionableDevices && (slice.Spec.PerDeviceNodeSelection != nil || len(slice.Spec.SharedCounters) > 0) {
		return FeatureOff
	}
	return ""
}

// unusable returns why the scheduler ignores a device.
func (d *device) unusable(features structured.Features) Reason {
	if !features.DeviceBindingAndStatus && len(d.seen.BindingConditions) > 0 || !features.PartitionableDevices && len(d.seen.ConsumesCounters) > 0 {
		return FeatureOff
	}
	return ""
}

// modelOf is the model of a device, if its driver publishes one.
func modelOf(d *resourceapi.Device) string {
	for _, name := range []resourceapi.QualifiedName{"productName", "model"} {
		if value := d.Attributes[name].StringValue; value != nil {
			return *value
		}
	}
	best := resourceapi.QualifiedName("")
	for name, value := range d.Attributes {
		if base := baseName(name); value.StringValue != nil && (base == "productName" || base == "model") && (best == "" || name < best) {
			best = name
		}
	}
	if best == "" {
		return ""
	}
	return *d.Attributes[best].StringValue
}

// A Device is one device of the newest generation of its pool, with its state in the scope of
// all devices.
type Device struct {
	Tracker tracker.Device
	// Node is where it is, empty if that is more than one.
	Node  string
	State State
	// Reason is set if it is unreachable, Effect is the strongest of its taints that keeps claims
	// away: also of a device that is held.
	Reason Reason
	Effect resourceapi.DeviceTaintEffect
	// InUse is true if a claim has it, or a share of it.
	InUse bool
	// Claims have it, once for each result of an allocation. They are shared, not copied.
	Claims []*resourceapi.ResourceClaim
	// Model is what its driver publishes as model or productName.
	Model string
}

// Devices returns all devices with their states, in the order of their slices. Their states
// are those that [Cluster.Inventory] counts without a class.
func (c Cluster) Devices(ctx context.Context) ([]Device, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := s.choose(ctx, Scope{})
	if err != nil {
		return nil, err
	}
	all := make([]Device, 0, len(s.devices))
	for _, d := range s.devices {
		one := Device{Tracker: d.tracker, Node: d.place.node, State: chosen.stateOf(d), Reason: d.reason, Effect: d.effect, InUse: d.inUse, Model: d.model}
		for _, part := range d.holding.by {
			one.Claims = append(one.Claims, part.claim)
		}
		all = append(all, one)
	}
	return all, nil
}
