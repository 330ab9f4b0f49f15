package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// verdict asks the allocator of kube-scheduler, node by node.
func (q *question) verdict(ctx context.Context, report *Report) error {
	report.Verdict = Unsatisfiable
	for _, r := range report.Requests {
		// The scheduler does not look at devices before all classes exist.
		if r.Reason == ClassNotFound {
			return nil
		}
	}
	found, err := q.allocate(ctx)
	if err != nil {
		return err
	}
	if found.results != nil {
		report.Verdict, report.Node = Allocatable, found.node
		return nil
	}
	report.Message = found.message
	if len(q.others) > 0 && report.Message == "" {
		alone := *q
		alone.others = nil
		if found, err = alone.allocate(ctx); err != nil {
			return err
		}
		if found.results != nil {
			report.Message = fmt.Sprintf("alone, it could be allocated on %s, but not together with the pod's other claims: %s", found.node, names(q.others))
			return nil
		}
	}
	q.together(report)
	return nil
}

// offered are the slices for the allocator, which is that of a newer kube-scheduler: to
// it the pools of which slices are missing look complete, if that of the cluster does not
// mind.
func (q *question) offered() []*resourceapi.ResourceSlice {
	for _, claim := range append([]*resourceapi.ResourceClaim{q.claim}, q.others...) {
		if slices.ContainsFunc(requests(claim), func(r asked) bool { return !q.givesAway(r) }) {
			return q.slices
		}
	}
	offered := slices.Clone(q.slices)
	for i, slice := range offered {
		pool := q.pools[poolID{slice.Spec.Driver, slice.Spec.Pool.Name}]
		if slice.Spec.Pool.Generation == pool.generation && pool.slices < pool.total {
			copied := *slice
			copied.Spec.Pool.ResourceSliceCount = pool.slices
			offered[i] = &copied
		}
	}
	return offered
}

// An allocation is the answer of the allocator: a node with the devices of each claim, or
// the reason why there is no node.
type allocation struct {
	node, message string
	results       []resourceapi.AllocationResult
}

// allocate looks for a node on which the claim and the others can be allocated.
func (q *question) allocate(ctx context.Context) (found allocation, _ error) {
	state, on := q.allocatedState(), byNode(q.offered())
	claims := append([]*resourceapi.ResourceClaim{q.claim}, q.others...)
	for _, node := range q.nodes {
		allocator, err := structured.NewAllocator(ctx, q.features, state, classes{q.world.View}, on(node.Name), q.cache)
		if err != nil {
			return found, fmt.Errorf("allocator of kube-scheduler: %w", err)
		}
		results, err := allocator.Allocate(ctx, node, claims)
		switch {
		case ctx.Err() != nil:
			return found, ctx.Err()
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			found.message = err.Error()
		case err != nil:
			found.message = "kube-scheduler stops: " + err.Error()
			return found, nil
		case len(results) == len(claims):
			return allocation{node: node.Name, results: results}, nil
		}
	}
	return found, nil
}

// byNode returns a function from the name of a node to the slices of the pools that can
// have a device there. The allocator goes through all slices that it is given: without
// this, the time grows with the square of the nodes.
func byNode(all []*resourceapi.ResourceSlice) func(node string) []*resourceapi.ResourceSlice {
	nodes := map[poolID]string{} // empty for pools of several nodes
	for _, s := range all {
		id, node := poolID{s.Spec.Driver, s.Spec.Pool.Name}, ""
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
		if node := nodes[poolID{s.Spec.Driver, s.Spec.Pool.Name}]; node != "" {
			local[node] = append(local[node], s)
		} else {
			anywhere = append(anywhere, s)
		}
	}
	return func(node string) []*resourceapi.ResourceSlice { return slices.Concat(local[node], anywhere) }
}

func names(claims []*resourceapi.ResourceClaim) string {
	var all []string
	for _, claim := range claims {
		all = append(all, claim.Name)
	}
	return strings.Join(all, ", ")
}

// together explains a request for which enough devices are suitable each by itself.
func (q *question) together(report *Report) {
	if len(q.nodes) == 0 {
		report.Message = "the pod cannot run on any node"
		return
	}
	for _, r := range report.Requests {
		if r.Reason != "" {
			return
		}
	}
	for i := range report.Requests {
		report.Requests[i].Reason = Together
		report.Requests[i].Message = "enough devices are suitable one by one, but not together: constraints, shared counters, capacities or other requests exclude it"
	}
}

// classes are what the allocator looks classes up in.
type classes struct{ view *tracker.Snapshot }

func (c classes) List() (all []*resourceapi.DeviceClass, err error) {
	for class := range c.view.Classes() {
		all = append(all, class)
	}
	return all, nil
}

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c.view.Class(name); class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

// allocatedState is what other claims have, as the scheduler counts it.
func (q *question) allocatedState() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range q.world.Claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			if r.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			if r.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		}
	}
	return state
}
