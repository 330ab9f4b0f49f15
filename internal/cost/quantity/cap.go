package quantity

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Cap replaces each number beyond the bounds in what a ResourceClaim, ResourceClaimTemplate, Pod or Node has to
// calculate with. API servers store 10e2147483646 at once, and comparing it with 1 takes minutes. 1e1000 is larger
// than any device, too. Nothing else may use the object meanwhile.
func Cap(object any) { visit(object, capOne) }

// Capped is a slice with its numbers as [Cap] replaces them, the slice itself where none is beyond the bounds.
func Capped(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	found := false
	visit(slice, func(q *resource.Quantity) bool {
		found = found || isBeyond(q)
		return false
	})
	if found {
		slice = slice.DeepCopy()
		Cap(slice)
	}
	return slice
}

// isBeyond reports that a number is 1e1000 at least, give or take some digits.
func isBeyond(q *resource.Quantity) bool {
	if q == nil {
		return false
	}
	if _, small := q.AsInt64(); small {
		return false
	}
	copied := *q
	d := copied.AsDec()
	return d.UnscaledBig().BitLen()*3/10-int(d.Scale()) > MaxMagnitude // a digit has 3.3 bits
}

// capOne reports whether it replaced the number.
func capOne(q *resource.Quantity) bool {
	if !isBeyond(q) {
		return false
	}
	*q = *resource.NewScaledQuantity(int64(q.Sign()), MaxMagnitude)
	q.Format = resource.DecimalExponent
	return true
}

// A change reports whether it changed a number, which can be nil.
type change func(*resource.Quantity) bool

func visit(object any, f change) {
	switch object := object.(type) {
	case *resourceapi.ResourceSlice:
		for _, set := range object.Spec.SharedCounters {
			f.counters(set.Counters)
		}
		for i := range object.Spec.Devices {
			f.device(&object.Spec.Devices[i])
		}
	case *resourceapi.ResourceClaim:
		f.requests(&object.Spec)
		if object.Status.Allocation != nil {
			for _, result := range object.Status.Allocation.Devices.Results {
				visitMap(result.ConsumedCapacity, f)
			}
		}
	case *resourceapi.ResourceClaimTemplate:
		f.requests(&object.Spec.Spec)
	case *corev1.Node:
		visitMap(object.Status.Allocatable, f)
	case *corev1.Pod:
		f.pod(&object.Spec)
	}
}

func (f change) device(d *resourceapi.Device) {
	for name, capacity := range d.Capacity {
		if policy := capacity.RequestPolicy; policy != nil {
			f(policy.Default)
			for i := range policy.ValidValues {
				f(&policy.ValidValues[i])
			}
			if span := policy.ValidRange; span != nil {
				f(span.Min)
				f(span.Max)
				f(span.Step)
			}
		}
		if f(&capacity.Value) {
			d.Capacity[name] = capacity
		}
	}
	for _, consumed := range d.ConsumesCounters {
		f.counters(consumed.Counters)
	}
	for _, taken := range d.NodeAllocatableResources {
		if m := taken.Mapping; m != nil {
			f(m.CapacityMultiplier)
			f(m.DeviceMultiplier)
		}
		if o := taken.Overhead; o != nil {
			f(o.PerPod)
			f(o.PerContainer)
		}
	}
}

func (f change) counters(counters map[string]resourceapi.Counter) {
	for name, counter := range counters {
		if f(&counter.Value) {
			counters[name] = counter
		}
	}
}

func (f change) requests(spec *resourceapi.ResourceClaimSpec) {
	for _, request := range spec.Devices.Requests {
		if request.Exactly != nil && request.Exactly.Capacity != nil {
			visitMap(request.Exactly.Capacity.Requests, f)
		}
		for _, sub := range request.FirstAvailable {
			if sub.Capacity != nil {
				visitMap(sub.Capacity.Requests, f)
			}
		}
	}
}

func (f change) pod(spec *corev1.PodSpec) {
	visitMap(spec.Overhead, f)
	if spec.Resources != nil {
		visitMap(spec.Resources.Requests, f)
		visitMap(spec.Resources.Limits, f)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			visitMap(container.Resources.Requests, f)
			visitMap(container.Resources.Limits, f)
		}
	}
}

func visitMap[K comparable](all map[K]resource.Quantity, f change) {
	for name, q := range all {
		if f(&q) {
			all[name] = q
		}
	}
}
