package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// Seen returns the slices as a scheduler sees them: as the API server has them, with the
// taints of rules; or with ResourceSlicePatches, which the stock kube-scheduler does not apply.
func Seen(view *tracker.Snapshot, patched bool) []*resourceapi.ResourceSlice {
	all := view.List(nil)
	if patched {
		return all
	}
	for i, merged := range all {
		all[i] = withTaints(view.Stored(merged.Name), merged)
	}
	return all
}

// withTaints returns a stored slice with the taints of a merged one. The values of a stored
// slice can be patched, where patches are written into slices.
func withTaints(stored, merged *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	if stored == merged {
		return stored
	}
	seen := *stored
	seen.Spec.Devices = slices.Clone(stored.Spec.Devices)
	for i := range seen.Spec.Devices {
		seen.Spec.Devices[i].Taints = merged.Spec.Devices[i].Taints
	}
	return &seen
}

// Completed returns slices for the allocator, which is that of a newer kube-scheduler: to it
// the pools of which slices are missing look complete, as to a kube-scheduler before 1.35.
func Completed(all []*resourceapi.ResourceSlice, pools map[PoolID]Pool) []*resourceapi.ResourceSlice {
	offered := slices.Clone(all)
	for i, slice := range offered {
		pool := pools[PoolOf(slice)]
		if slice.Spec.Pool.Generation == pool.Generation && pool.Slices < pool.Total {
			copied := *slice
			copied.Spec.Pool.ResourceSliceCount = pool.Slices
			offered[i] = &copied
		}
	}
	return offered
}

// Separated returns slices for the allocator, to which counter sets are in slices without devices.
// Before Kubernetes 1.35 they are in the slice of the devices that consume them.
func Separated(all []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	type generation struct {
		PoolID
		number int64
	}
	of := func(slice *resourceapi.ResourceSlice) generation {
		return generation{PoolOf(slice), slice.Spec.Pool.Generation}
	}
	more := map[generation]int64{}
	for _, slice := range all {
		if len(slice.Spec.SharedCounters) > 0 && len(slice.Spec.Devices) > 0 {
			more[of(slice)]++
		}
	}
	if len(more) == 0 {
		return all
	}
	separated := make([]*resourceapi.ResourceSlice, 0, len(all)+len(more))
	for _, slice := range all {
		if more[of(slice)] == 0 {
			separated = append(separated, slice)
			continue
		}
		devices := *slice
		devices.Spec.Pool.ResourceSliceCount += more[of(slice)]
		if len(slice.Spec.SharedCounters) > 0 && len(slice.Spec.Devices) > 0 {
			counters := devices
			counters.Name += "-counters"
			counters.Spec.Devices, devices.Spec.SharedCounters = nil, nil
			separated = append(separated, &counters)
		}
		separated = append(separated, &devices)
	}
	return separated
}

// ByNode returns a function from the name of a node to the slices of the pools that can
// have a device there. The allocator goes through all slices that it is given: without
// this, the time grows with the square of the nodes.
func ByNode(all []*resourceapi.ResourceSlice) func(node string) []*resourceapi.ResourceSlice {
	nodes := map[PoolID]string{} // empty for pools of several nodes
	for _, s := range all {
		id, node := PoolOf(s), ""
		if s.Spec.NodeName != nil {
			node = *s.Spec.NodeName
		}
		if known, seen := nodes[id]; seen && known != node {
			node = ""
		}
		nodes[id] = node
	}
	var anywhere []*resourceapi.ResourceSlice
	local := map[string][]*resourceapi.ResourceSlice{}
	for _, s := range all {
		if node := nodes[PoolOf(s)]; node != "" {
			local[node] = append(local[node], s)
		} else {
			anywhere = append(anywhere, s)
		}
	}
	return func(node string) []*resourceapi.ResourceSlice { return slices.Concat(local[node], anywhere) }
}

// Allocated returns what claims have, as the scheduler counts it.
func Allocated(claims iter.Seq[*resourceapi.ResourceClaim], features structured.Features) structured.AllocatedState {
	a := Allocator{Features: features, State: structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}}
	for claim := range claims {
		a.take(claim.Status.Allocation)
	}
	return a.State
}

// held yields the results of an allocation that take something: admin access does not.
func held(allocation *resourceapi.AllocationResult) iter.Seq2[structured.DeviceID, *resourceapi.DeviceRequestAllocationResult] {
	return func(yield func(structured.DeviceID, *resourceapi.DeviceRequestAllocationResult) bool) {
		if allocation == nil {
			return
		}
		for i := range allocation.Devices.Results {
			r := &allocation.Devices.Results[i]
			if (r.AdminAccess == nil || !*r.AdminAccess) && !yield(structured.MakeDeviceID(r.Driver, r.Pool, r.Device), r) {
				return
			}
		}
	}
}

// Classes are what the allocator looks classes up in.
type Classes struct{ View *tracker.Snapshot }

var _ structured.DeviceClassLister = Classes{}

// List returns all.
func (c Classes) List() (all []*resourceapi.DeviceClass, err error) {
	for class := range c.View.Classes() {
		all = append(all, class)
	}
	return all, nil
}

// Get returns the class of that name.
func (c Classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c.View.Class(name); class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// Known are the gates, or if they were not read the defaults of the newest Kubernetes that
// is supported.
func Known(read gates.Gates) gates.Gates {
	if read.Source == "" {
		return gates.Defaults(0)
	}
	return read
}

// An Allocator allocates the devices of claims on one node.
type Allocator struct {
	Features structured.Features
	// State is what is taken.
	State   structured.AllocatedState
	Classes structured.DeviceClassLister
	// Slices returns those for a node.
	Slices func(node string) []*resourceapi.ResourceSlice
	Cache  *Cache
	// Steps are how many are left for searches with the allocator; nil is ManySteps for each.
	Steps *int
}

// shared reports whether a result takes a share of a device: without the gate, it takes the device.
func (a Allocator) shared(r *resourceapi.DeviceRequestAllocationResult) bool {
	return r.ShareID != nil && a.Features.ConsumableCapacity
}

func (a Allocator) take(allocation *resourceapi.AllocationResult) {
	for id, r := range held(allocation) {
		if !a.shared(r) {
			a.State.AllocatedDevices.Insert(id)
			continue
		}
		a.State.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		if r.ConsumedCapacity != nil {
			a.State.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

func (a Allocator) giveBack(allocation *resourceapi.AllocationResult) {
	for id, r := range held(allocation) {
		if !a.shared(r) {
			a.State.AllocatedDevices.Delete(id)
			continue
		}
		a.State.AllocatedSharedDeviceIDs.Delete(structured.MakeSharedDeviceID(id, r.ShareID))
		if r.ConsumedCapacity != nil {
			a.State.AggregatedCapacity.Remove(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
}

// ErrStops is for what kube-scheduler stops at, on whichever node: a selector that fails.
var ErrStops = errors.New("kube-scheduler stops")

// ErrSlow is for claims for which neither devices nor the lack of them are found in time. kube-scheduler gives up a node
// after ten seconds, and begins again later.
var ErrSlow = errors.New("the search for devices takes too long")

// ManySteps bound the search for the devices of one claim to seconds: claims can be written for which it takes days.
const ManySteps = 200_000

// steps is a context that ends after so many looks at it: the allocator looks once in each step.
type steps struct {
	context.Context
	left *int
}

func (s steps) Err() error {
	if *s.left--; *s.left < 0 {
		return ErrSlow
	}
	return s.Context.Err()
}

// On returns an allocation for each claim, or none and the message of the allocator, which is
// usually empty. An error that wraps ErrStops is about the claims, not about the node; ErrSlow is about both, or about
// a selector that is too expensive to evaluate.
func (a Allocator) On(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) (results []resourceapi.AllocationResult, message string, _ error) {
	offered := a.Slices(node.Name)
	allocator, err := structured.NewAllocator(ctx, a.Features, a.State, a.Classes, offered, a.Cache.allocator)
	if err != nil {
		return nil, "", fmt.Errorf("allocator of kube-scheduler: %w", err)
	}
	left := a.Steps
	if left == nil {
		left = new(ManySteps)
	}
	if err := a.checkSelectors(ctx, claims, offered, left); err != nil {
		return nil, "", cmp.Or(ctx.Err(), err)
	}
	results, err = allocator.Allocate(steps{ctx, left}, node, claims)
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case *left < 0:
		return nil, "", ErrSlow
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", fmt.Errorf("%w: %w", ErrStops, err)
	case len(results) != len(claims):
		return nil, "", nil
	}
	return results, "", nil
}

// Matches is how the scheduler finds out whether a node is meant, with any gates.
func Matches(node *corev1.Node, name *string, all *bool, selector *corev1.NodeSelector) bool {
	wanted, every := "", false
	if name != nil {
		wanted = *name
	}
	if all != nil {
		every = *all
	}
	ok, err := structured.NodeMatches(structured.Features{}, node, wanted, every, selector)
	return err == nil && ok // of an invalid selector the allocator speaks
}
