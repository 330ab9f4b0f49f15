package usage

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Taken is what allocations have of one device. Admin access has nothing of it: it observes.
type Taken struct {
	// Exclusive is true if a claim has the device for itself.
	Exclusive bool
	// Shares of the device are allocated, which consume this capacity together.
	Shares   int
	Consumed map[resourceapi.QualifiedName]resource.Quantity
}

// Observes reports whether a result only has admin access.
func Observes(r resourceapi.DeviceRequestAllocationResult) bool {
	return r.AdminAccess != nil && *r.AdminAccess
}

// Add adds what a result has of the device.
func (u *Taken) Add(r resourceapi.DeviceRequestAllocationResult) {
	switch {
	case Observes(r):
		return
	case r.ShareID == nil:
		u.Exclusive = true
		return
	}
	u.Shares++
	for name, value := range r.ConsumedCapacity {
		if u.Consumed == nil {
			u.Consumed = map[resourceapi.QualifiedName]resource.Quantity{}
		}
		sum := u.Consumed[name].DeepCopy()
		sum.Add(value)
		u.Consumed[name] = sum
	}
}

// Full reports whether the allocator gives nothing more of the device to anybody: not even the smallest share.
func (u Taken) Full(d *resourceapi.Device) bool {
	if u.Exclusive || d.AllowMultipleAllocations == nil || !*d.AllowMultipleAllocations {
		return u.Exclusive || u.Shares > 0
	}
	for name, c := range d.Capacity {
		left := c.Value.DeepCopy()
		left.Sub(u.Consumed[name])
		if least := leastShare(c.RequestPolicy); left.Cmp(least) < 0 || least.IsZero() && left.IsZero() && !c.Value.IsZero() {
			return true
		}
	}
	return false
}

// leastShare is the smallest amount that a request can consume by a policy; zero if any amount above zero can be.
func leastShare(policy *resourceapi.CapacityRequestPolicy) (least resource.Quantity) {
	switch {
	case policy == nil:
	case policy.ValidRange != nil && policy.ValidRange.Min != nil:
		return *policy.ValidRange.Min
	case len(policy.ValidValues) > 0:
		return policy.ValidValues[0] // they are in ascending order
	}
	return least
}
