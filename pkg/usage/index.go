package usage

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// A DeviceID names a device. It need not be published (any more): a claim holds what
// was allocated to it.
type DeviceID struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

// String returns "driver/pool/device".
func (id DeviceID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Device }

func compareDevices(a, b DeviceID) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// set is a set of claims or pods.
type set map[types.NamespacedName]struct{}

// An Index joins claims and pods. The zero value is empty and ready for use, by several
// goroutines at once. It keeps the objects that it is given and does not change them.
type Index struct {
	mutex  sync.RWMutex
	claims map[types.NamespacedName]*resourceapi.ResourceClaim // allocated ones
	pods   map[types.NamespacedName]*corev1.Pod                // those that name a claim
	// devices has the claims that hold a device, by driver, pool and device.
	devices map[string]map[string]map[string]set
	// naming has the pods that name a claim, rightly or not.
	naming  map[types.NamespacedName]set
	budgets map[string]map[string]*policyv1.PodDisruptionBudget // by namespace and name
}

// SetClaim tells of a claim that is new or has changed.
func (i *Index) SetClaim(claim *resourceapi.ResourceClaim) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	i.dropClaim(name)
	if claim.Status.Allocation == nil {
		return
	}
	if i.claims == nil {
		i.claims = map[types.NamespacedName]*resourceapi.ResourceClaim{}
		i.devices = map[string]map[string]map[string]set{}
	}
	i.claims[name] = claim
	for id := range allocated(claim) {
		pools := i.devices[id.Driver]
		if pools == nil {
			pools = map[string]map[string]set{}
			i.devices[id.Driver] = pools
		}
		if pools[id.Pool] == nil {
			pools[id.Pool] = map[string]set{}
		}
		if pools[id.Pool][id.Device] == nil {
			pools[id.Pool][id.Device] = set{}
		}
		pools[id.Pool][id.Device][name] = struct{}{}
	}
}

// DeleteClaim tells that there is no claim of a name any more.
func (i *Index) DeleteClaim(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.dropClaim(types.NamespacedName{Namespace: namespace, Name: name})
}

func (i *Index) dropClaim(name types.NamespacedName) {
	claim := i.claims[name]
	if claim == nil {
		return
	}
	delete(i.claims, name)
	for id := range allocated(claim) {
		pools := i.devices[id.Driver]
		holders := pools[id.Pool][id.Device]
		if delete(holders, name); len(holders) > 0 {
			continue
		}
		if delete(pools[id.Pool], id.Device); len(pools[id.Pool]) > 0 {
			continue
		}
		if delete(pools, id.Pool); len(pools) == 0 {
			delete(i.devices, id.Driver)
		}
	}
}

// allocated yields the devices of a claim. One that serves several requests, or is
// allocated in shares, comes several times.
func allocated(claim *resourceapi.ResourceClaim) iter.Seq[DeviceID] {
	return func(yield func(DeviceID) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if !yield(DeviceID{result.Driver, result.Pool, result.Device}) {
				return
			}
		}
	}
}

// SetPod tells of a pod that is new or has changed. Of pods that name no claim nothing
// is kept.
func (i *Index) SetPod(pod *corev1.Pod) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	i.dropPod(name)
	for claim := range named(pod) {
		if i.pods == nil {
			i.pods = map[types.NamespacedName]*corev1.Pod{}
			i.naming = map[types.NamespacedName]set{}
		}
		i.pods[name] = pod
		if i.naming[claim.name] == nil {
			i.naming[claim.name] = set{}
		}
		i.naming[claim.name][name] = struct{}{}
	}
}

// DeletePod tells that there is no pod of a name any more.
func (i *Index) DeletePod(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.dropPod(types.NamespacedName{Namespace: namespace, Name: name})
}

func (i *Index) dropPod(name types.NamespacedName) {
	pod := i.pods[name]
	if pod == nil {
		return
	}
	delete(i.pods, name)
	for claim := range named(pod) {
		if delete(i.naming[claim.name], name); len(i.naming[claim.name]) == 0 {
			delete(i.naming, claim.name)
		}
	}
}

// reference is a claim that a pod names.
type reference struct {
	name types.NamespacedName
	// made says that the claim was made for the pod, or for its PodGroup.
	made, extended bool
}

// named yields the claims that a pod names.
func named(pod *corev1.Pod) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		in := func(name string) types.NamespacedName {
			return types.NamespacedName{Namespace: pod.Namespace, Name: name}
		}
		for i := range pod.Spec.ResourceClaims {
			// An error is a claim that is not made yet, or a reference of a kind that is
			// newer than this library.
			name, made, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
			if err == nil && name != nil && !yield(reference{name: in(*name), made: made}) {
				return
			}
		}
		if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
			yield(reference{name: in(e.ResourceClaimName), made: true, extended: true})
		}
	}
}

// SetBudget tells of a PodDisruptionBudget that is new or has changed.
func (i *Index) SetBudget(budget *policyv1.PodDisruptionBudget) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.budgets == nil {
		i.budgets = map[string]map[string]*policyv1.PodDisruptionBudget{}
	}
	if i.budgets[budget.Namespace] == nil {
		i.budgets[budget.Namespace] = map[string]*policyv1.PodDisruptionBudget{}
	}
	i.budgets[budget.Namespace][budget.Name] = budget
}

// DeleteBudget tells that there is no PodDisruptionBudget of a name any more.
func (i *Index) DeleteBudget(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if delete(i.budgets[namespace], name); len(i.budgets[namespace]) == 0 {
		delete(i.budgets, namespace)
	}
}

// uses tells whether a pod uses a claim that it names.
func uses(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	for r := range named(pod) {
		if r.name == name && (!r.made || resourceclaim.IsForPod(pod, claim, !r.extended) == nil) {
			return resourceclaim.IsReservedForPod(pod, claim, true)
		}
	}
	return false
}

// Claims returns the claims that a device is allocated to, in the order of their names.
func (i *Index) Claims(id DeviceID) []*resourceapi.ResourceClaim {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	var claims []*resourceapi.ResourceClaim
	for _, name := range slices.SortedFunc(maps.Keys(i.devices[id.Driver][id.Pool][id.Device]), compareNames) {
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
	for _, pod := range slices.SortedFunc(maps.Keys(i.naming[name]), compareNames) {
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
	return slices.SortedFunc(maps.Keys(devices), compareDevices)
}
