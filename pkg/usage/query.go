package usage

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Claims returns the claims that a device is allocated to, in the order of their names.
func (i *Index) Claims(id DeviceID) []*resourceapi.ResourceClaim {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	var claims []*resourceapi.ResourceClaim
	for _, h := range i.holders(id) {
		claims = append(claims, h.claim)
	}
	slices.SortFunc(claims, func(a, b *resourceapi.ResourceClaim) int {
		return compareNames(nameOf(a), nameOf(b))
	})
	return slices.Compact(claims)
}

// Pods returns the pods that use an allocated claim, in the order of their names.
func (i *Index) Pods(namespace, claim string) []*corev1.Pod {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return i.podsOf(types.NamespacedName{Namespace: namespace, Name: claim})
}

func (i *Index) podsOf(name types.NamespacedName) (pods []*corev1.Pod) {
	claim := i.claims[name]
	if claim == nil {
		return nil
	}
	for _, n := range i.naming[name] {
		if uses(n.of.pod, claim) {
			pods = append(pods, n.of.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return compareNames(nameOf(a), nameOf(b)) })
	return slices.Compact(pods) // one can name a claim twice
}

// Devices returns the devices that a pod holds, in their order, each once.
func (i *Index) Devices(namespace, pod string) []DeviceID {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	known := i.pods[types.NamespacedName{Namespace: namespace, Name: pod}]
	if known == nil {
		return nil
	}
	devices := map[DeviceID]struct{}{}
	for r := range named(known.pod) {
		if claim := i.claims[r.name]; claim != nil && uses(known.pod, claim) {
			for _, id := range allocated(claim) {
				devices[id] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(devices), DeviceID.Compare)
}

// Claim returns the allocated claim of that name, or nil.
func (i *Index) Claim(namespace, name string) *resourceapi.ResourceClaim {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return i.claims[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Pod returns the pod of that name if it names a claim, or nil.
func (i *Index) Pod(namespace, name string) *corev1.Pod {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	if known := i.pods[types.NamespacedName{Namespace: namespace, Name: name}]; known != nil {
		return known.pod
	}
	return nil
}

// Allocated returns the allocated devices that a selector of a DeviceTaintRule selects,
// in no order; none for a nil one, all for an empty one.
func (i *Index) Allocated(selector *resourceapi.DeviceTaintSelector) []DeviceID {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return slices.Collect(i.selected(selector))
}

// Count is how many devices Allocated returns.
func (i *Index) Count(selector *resourceapi.DeviceTaintSelector) (n int) {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	if selector == nil {
		return 0
	}
	for _, pools := range only(i.devices, selector.Driver) {
		for _, held := range only(pools, selector.Pool) {
			switch {
			case selector.Device == nil:
				n += len(held)
			case len(held[*selector.Device]) > 0:
				n++
			}
		}
	}
	return n
}

// Concerned returns the pods that name a claim which one of the devices that a selector of
// a DeviceTaintRule selects is allocated to, whether they use the claim or not; a pod of
// several devices comes several times. A keep that is not nil selects among the
// allocations; it must neither change one nor use the index.
func (i *Index) Concerned(selector *resourceapi.DeviceTaintSelector, keep func(*resourceapi.DeviceRequestAllocationResult) bool) []types.NamespacedName {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	if s := selector; s != nil && s.Driver != nil && s.Pool != nil && s.Device != nil { // for each changed device of a slice
		return i.concerned(nil, i.holders(DeviceID{*s.Driver, *s.Pool, *s.Device}), keep)
	}
	var pods []types.NamespacedName
	for _, holdings := range i.held(selector) {
		pods = i.concerned(pods, holdings, keep)
	}
	return pods
}

// concerned appends the pods that name the claims of those that hold a device.
func (i *Index) concerned(pods []types.NamespacedName, holdings []holding, keep func(*resourceapi.DeviceRequestAllocationResult) bool) []types.NamespacedName {
	for _, h := range holdings {
		if keep != nil && !keep(h.result) {
			continue
		}
		for _, n := range i.naming[nameOf(h.claim)] {
			pods = append(pods, nameOf(n.of.pod))
		}
	}
	return pods
}

// reference is a claim that a pod names.
type reference struct {
	name types.NamespacedName
	// at is its place among those that the pod names.
	at int
	// made is true if the claim was created for the pod, or for its PodGroup.
	made, extended bool
}

// named yields the claims that a pod names.
func named(pod *corev1.Pod) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		for at := range len(pod.Spec.ResourceClaims) + 1 {
			if r, ok := nameAt(pod, at); ok && !yield(r) {
				return
			}
		}
	}
}

// nameAt is the claim that a pod names at a place of its spec.resourceClaims, or after
// the last for its extended resources.
func nameAt(pod *corev1.Pod, at int) (r reference, ok bool) {
	if at == len(pod.Spec.ResourceClaims) {
		e := pod.Status.ExtendedResourceClaimStatus
		if e == nil {
			return reference{}, false
		}
		return reference{types.NamespacedName{Namespace: pod.Namespace, Name: e.ResourceClaimName}, at, true, true}, true
	}
	// An error is a claim that is not made yet, or a reference of a kind that is newer
	// than this library.
	name, made, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[at])
	if err != nil || name == nil {
		return reference{}, false
	}
	return reference{types.NamespacedName{Namespace: pod.Namespace, Name: *name}, at, made, false}, true
}

// isFor reports whether the claim belongs to the pod: a claim that was created for one pod
// (with groups, for its PodGroup) belongs to no other.
func (r reference) isFor(pod *corev1.Pod, claim *resourceapi.ResourceClaim, groups bool) bool {
	return !r.made || resourceclaim.IsForPod(pod, claim, groups && !r.extended) == nil
}

// uses reports whether a pod uses a claim that it names.
func uses(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	for r := range named(pod) {
		if r.name == name && r.isFor(pod, claim, true) {
			return resourceclaim.IsReservedForPod(pod, claim, true)
		}
	}
	return false
}

// A Use is a claim that a pod uses.
type Use struct {
	Claim *resourceapi.ResourceClaim
	// ExtendedResource is true if the scheduler created the claim for extended resources.
	ExtendedResource bool
}

// Uses yields the claims that a pod uses, of those that lookup finds. With groups, a
// reservation for its PodGroup counts.
func Uses(pod *corev1.Pod, lookup func(namespace, name string) *resourceapi.ResourceClaim, groups bool) iter.Seq[Use] {
	return func(yield func(Use) bool) {
		for r := range named(pod) {
			claim := lookup(r.name.Namespace, r.name.Name)
			if claim != nil && r.isFor(pod, claim, groups) && resourceclaim.IsReservedForPod(pod, claim, groups) &&
				!yield(Use{Claim: claim, ExtendedResource: r.extended}) {
				return
			}
		}
	}
}
