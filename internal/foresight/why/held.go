package why

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// held are the claims that could give devices, shares of them or counters back.
func (q *question) held(ctx context.Context, r asked, request *Request) (all []hypothesis) {
	taken, suitable := q.places(request, because(Taken)), q.places(request, because(Fits))
	add := func(kind Kind, what string, holder *resourceapi.ResourceClaim, n int) {
		h := hypothesis{cause: Cause{Kind: kind, Devices: n}, change: func(q *question) { q.release(holder) }}
		h.cause.Message = fmt.Sprintf("%s claim %s/%s, used by %s", what, holder.Namespace, holder.Name, consumers(holder))
		h.cause.Remedy, h.cause.Command = q.end(holder)
		all = append(all, h)
	}
	holders := map[*resourceapi.ResourceClaim]place{}
	for _, p := range taken {
		if holder := q.holders[idOf(p.slice, p.device)]; holder != nil {
			holders[holder] = p
		}
	}
	for _, holder := range q.inOrder(holders) {
		what := fmt.Sprintf("%s is allocated to", holders[holder])
		if n := len(taken) + len(suitable); n > 1 {
			what = fmt.Sprintf("%d of %d %s devices are free where the pod may run; %s", len(suitable), n, noun(r), what)
		}
		add(DevicesTaken, what, holder, len(taken))
	}
	smaller := q.tooLarge(ctx, r, request)
	for _, p := range suitable[:min(len(suitable), tries)] {
		for _, holder := range q.inOrder(q.sharers(p)) {
			if smaller != nil {
				break // to request what is left needs nothing of others
			}
			add(SharesTaken, q.left(p, r)+" the rest is allocated to", holder, len(suitable))
		}
		for _, holder := range q.inOrder(q.consumers(p)) {
			add(CountersTaken, q.shortage(p)+" they are allocated to", holder, len(suitable))
		}
	}
	return all
}

// inOrder returns the holders that are easiest to end first: those of other owners than the
// waiting pod, those in the namespace of the claim, then those with few pods.
func (q *question) inOrder(holders map[*resourceapi.ResourceClaim]place) []*resourceapi.ResourceClaim {
	foreign := func(c *resourceapi.ResourceClaim) int {
		if c.Namespace == q.claim.Namespace {
			return 0
		}
		return 1
	}
	related := func(c *resourceapi.ResourceClaim) int {
		if q.related(q.holding(c)) {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(holders), func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(cmp.Compare(related(a), related(b)), cmp.Compare(foreign(a), foreign(b)), cmp.Compare(len(a.Status.ReservedFor), len(b.Status.ReservedFor)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// release takes the devices of a claim back.
func (q *question) release(holder *resourceapi.ResourceClaim) {
	q.cluster.Claims = slices.DeleteFunc(slices.Clone(q.cluster.Claims), func(c *resourceapi.ResourceClaim) bool { return c == holder })
}

// results yields what a claim has of a device.
func results(claim *resourceapi.ResourceClaim, include func(usage.DeviceID) bool) (found []resourceapi.DeviceRequestAllocationResult) {
	if claim.Status.Allocation == nil {
		return nil
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if (r.AdminAccess == nil || !*r.AdminAccess) && include(usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}) {
			found = append(found, r)
		}
	}
	return found
}

// sharers are the claims that have shares of a device.
func (q *question) sharers(p place) map[*resourceapi.ResourceClaim]place {
	found := map[*resourceapi.ResourceClaim]place{}
	for _, claim := range q.users[idOf(p.slice, p.device)] {
		found[claim] = p
	}
	return found
}

// consumers are the claims with devices of the same counter sets.
func (q *question) consumers(p place) map[*resourceapi.ResourceClaim]place {
	sets := map[string]bool{}
	for _, c := range p.device.ConsumesCounters {
		sets[c.CounterSet] = true
	}
	found := map[*resourceapi.ResourceClaim]place{}
	if len(sets) == 0 {
		return found
	}
	for _, other := range q.pool(p) {
		if slices.ContainsFunc(other.device.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return sets[c.CounterSet] }) {
			for _, claim := range q.users[idOf(other.slice, other.device)] {
				found[claim] = p
			}
		}
	}
	return found
}

// pool returns the devices of the pool of a device.
func (q *question) pool(p place) (all []place) {
	for _, slice := range q.slices {
		if slice.Spec.Driver == p.slice.Spec.Driver && slice.Spec.Pool.Name == p.slice.Spec.Pool.Name && slice.Spec.Pool.Generation == p.slice.Spec.Pool.Generation {
			for i := range slice.Spec.Devices {
				all = append(all, place{slice, &slice.Spec.Devices[i]})
			}
		}
	}
	return all
}

// shortage names the counters that are too few for a device.
func (q *question) shortage(p place) string {
	for _, needs := range p.device.ConsumesCounters {
		left := q.counters(p, needs.CounterSet)
		for _, name := range slices.Sorted(maps.Keys(needs.Counters)) {
			need, available := needs.Counters[name].Value, left[name]
			if available.Cmp(need) < 0 {
				return fmt.Sprintf("%s needs %s %s of counter set %s, of which %s are left;", p, need.String(), name, needs.CounterSet, available.String())
			}
		}
	}
	return fmt.Sprintf("%s needs counters;", p)
}

// counters are what is left of a counter set.
func (q *question) counters(p place, set string) map[string]resource.Quantity {
	left := map[string]resource.Quantity{}
	for _, slice := range q.slices {
		if slice.Spec.Driver != p.slice.Spec.Driver || slice.Spec.Pool.Name != p.slice.Spec.Pool.Name {
			continue
		}
		for _, s := range slice.Spec.SharedCounters {
			for name, counter := range s.Counters {
				if s.Name == set {
					left[name] = counter.Value.DeepCopy()
				}
			}
		}
	}
	for _, other := range q.pool(p) {
		if q.holders[idOf(other.slice, other.device)] == nil {
			continue
		}
		for _, consumed := range other.device.ConsumesCounters {
			for name, counter := range consumed.Counters {
				if consumed.CounterSet == set {
					value := left[name]
					value.Sub(counter.Value)
					left[name] = value
				}
			}
		}
	}
	return left
}

// tooLarge are smaller capacities, as far as one device has them.
func (q *question) tooLarge(_ context.Context, r asked, request *Request) (all []hypothesis) {
	if r.capacity == nil || q.origin.resource == podResource {
		return nil
	}
	suitable := q.places(request, because(Fits))
	for _, name := range slices.SortedFunc(maps.Keys(r.capacity.Requests), func(a, b resourceapi.QualifiedName) int { return cmp.Compare(a, b) }) {
		wanted := r.capacity.Requests[name]
		best, most, used := place{}, resource.Quantity{}, false
		for _, p := range suitable {
			if free, consumed := q.free(p, name); best.device == nil || free.Cmp(most) > 0 {
				best, most, used = p, free, consumed
			}
		}
		if best.device == nil || most.Cmp(wanted) >= 0 || most.Sign() <= 0 {
			continue
		}
		h := hypothesis{cause: Cause{Kind: CapacityTooLarge, Devices: len(suitable)}, change: func(q *question) {
			q.claim = q.claim.DeepCopy()
			_, _, capacity := r.in(q.claim)
			(*capacity).Requests[name] = most
		}}
		h.cause.Message = fmt.Sprintf("request %s asks for %s %s; the most that a device has is %s (%s)", r.name, wanted.String(), name, most.String(), best)
		if used {
			h.cause.Kind = SharesTaken
			h.cause.Message = fmt.Sprintf("request %s asks for %s %s; %s", r.name, wanted.String(), name, strings.TrimSuffix(q.left(best, r), ";"))
		}
		h.cause.Remedy = "request " + most.String()
		h.cause.Command = q.origin.edit(operation{"replace", r.path + pointer("capacity", "requests", name), most.String()})
		all = append(all, h)
	}
	return all
}

// free is what is left of the capacity of a device, and whether other claims consume some.
func (q *question) free(p place, name resourceapi.QualifiedName) (left resource.Quantity, used bool) {
	capacity, ok := p.device.Capacity[name]
	if !ok {
		return left, false
	}
	left = capacity.Value.DeepCopy()
	for claim := range q.sharers(p) {
		for _, r := range results(claim, func(id usage.DeviceID) bool { return id == idOf(p.slice, p.device) }) {
			if consumed, ok := r.ConsumedCapacity[name]; ok {
				left.Sub(consumed)
				used = true
			}
		}
	}
	return left, used
}

// left describes what is left of a shared device.
func (q *question) left(p place, r asked) string {
	if r.capacity != nil {
		for _, name := range slices.SortedFunc(maps.Keys(r.capacity.Requests), func(a, b resourceapi.QualifiedName) int { return cmp.Compare(a, b) }) {
			free, _ := q.free(p, name)
			total := p.device.Capacity[name].Value
			if free.Cmp(r.capacity.Requests[name]) < 0 {
				return fmt.Sprintf("%s has %s of %s %s left;", p, free.String(), total.String(), name)
			}
		}
	}
	return fmt.Sprintf("%s is shared;", p)
}

func idOfResult(r resourceapi.DeviceRequestAllocationResult) structured.DeviceID {
	return structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
}
