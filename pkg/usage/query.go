package usage

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claims returns the claims that a device is allocated to, in the order of their names.
func (i *Index) Claims(id DeviceID) []*resourceapi.ResourceClaim {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	var claims []*resourceapi.ResourceClaim
	for _, name := range i.devices[id.Driver][id.Pool][id.Device] {
		claims = append(claims, i.claims[name])
	}
	return claims
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
	for _, pod := range i.naming[name] {
		if uses(i.pods[pod], claim) {
			pods = append(pods, i.pods[pod])
		}
	}
	return pods
}

// Devices returns the devices that a pod holds, in their order, each once.
func (i *Index) Devices(namespace, pod string) []DeviceID {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	object := i.pods[types.NamespacedName{Namespace: namespace, Name: pod}]
	if object == nil {
		return nil
	}
	devices := map[DeviceID]struct{}{}
	for r := range named(object) {
		if claim := i.claims[r.name]; claim != nil && uses(object, claim) {
			for id := range allocated(claim) {
				devices[id] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(devices), DeviceID.Compare)
}

// Claim returns an allocated claim, nil if there is none of that name.
func (i *Index) Claim(namespace, name string) *resourceapi.ResourceClaim {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return i.claims[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Pod returns a pod that names a claim, nil if there is none of that name.
func (i *Index) Pod(namespace, name string) *corev1.Pod {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	return i.pods[types.NamespacedName{Namespace: namespace, Name: name}]
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
	if selector == nil {
		return 0
	}
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	for _, pools := range only(i.devices, selector.Driver) {
		for _, devices := range only(pools, selector.Pool) {
			if selector.Device == nil {
				n += len(devices)
			} else if _, allocated := devices[*selector.Device]; allocated {
				n++
			}
		}
	}
	return n
}

// Concerned returns the pods that name a claim which one of the devices is allocated to,
// whether they use it or not; a pod of several comes several times.
func (i *Index) Concerned(devices ...DeviceID) []types.NamespacedName {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	var pods []types.NamespacedName
	for _, id := range devices {
		for _, claim := range i.devices[id.Driver][id.Pool][id.Device] {
			pods = append(pods, i.naming[claim]...)
		}
	}
	return pods
}
