package usage

import (
	"cmp"
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Compare orders devices by driver, pool and name.
func (id DeviceID) Compare(other DeviceID) int {
	return cmp.Or(cmp.Compare(id.Driver, other.Driver), cmp.Compare(id.Pool, other.Pool), cmp.Compare(id.Device, other.Device))
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// An Index joins claims and pods. The zero value is empty and ready for use, by several
// goroutines at once. It keeps the objects that it is given and does not change them.
type Index struct {
	mutex  sync.RWMutex
	claims map[types.NamespacedName]*resourceapi.ResourceClaim // allocated ones
	pods   map[types.NamespacedName]*corev1.Pod                // those that name a claim
	// devices has the claims that hold a device, by driver, pool and device.
	devices map[string]map[string]map[string]sorted
	// naming has the pods that name a claim, rightly or not.
	naming   map[types.NamespacedName]sorted
	budgets  map[string]map[string]*policyv1.PodDisruptionBudget // by namespace and name
	watchers watchers
}

// SetClaim tells of a claim that is new or has changed.
func (i *Index) SetClaim(claim *resourceapi.ResourceClaim) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	had := i.claims[name]
	if !sameDevices(had, claim) {
		i.dropClaim(name)
		i.addClaim(name, claim)
	} else if had != nil {
		i.claims[name] = claim
	}
	if !sameUse(had, claim) {
		i.watchers.tell(i.naming[name]...)
	}
}

func (i *Index) addClaim(name types.NamespacedName, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	if i.claims == nil {
		i.claims = map[types.NamespacedName]*resourceapi.ResourceClaim{}
		i.devices = map[string]map[string]map[string]sorted{}
	}
	i.claims[name] = claim
	for id := range allocated(claim) {
		pools := i.devices[id.Driver]
		if pools == nil {
			pools = map[string]map[string]sorted{}
			i.devices[id.Driver] = pools
		}
		if pools[id.Pool] == nil {
			pools[id.Pool] = map[string]sorted{}
		}
		pools[id.Pool][id.Device] = pools[id.Pool][id.Device].with(name)
	}
}

// DeleteClaim tells that there is no claim of a name any more.
func (i *Index) DeleteClaim(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if i.claims[key] != nil {
		i.dropClaim(key)
		i.watchers.tell(i.naming[key]...)
	}
}

func (i *Index) dropClaim(name types.NamespacedName) {
	claim := i.claims[name]
	if claim == nil {
		return
	}
	delete(i.claims, name)
	for id := range allocated(claim) {
		pools := i.devices[id.Driver]
		if holders := pools[id.Pool][id.Device].without(name); len(holders) > 0 {
			pools[id.Pool][id.Device] = holders
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
		if claim == nil || claim.Status.Allocation == nil {
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
	had := i.pods[name]
	if had != nil && sameNames(had, pod) {
		i.pods[name] = pod
	} else {
		i.dropPod(name)
		i.addPod(name, pod)
	}
	if had != nil || i.pods[name] != nil {
		i.watchers.tell(name)
	}
}

func (i *Index) addPod(name types.NamespacedName, pod *corev1.Pod) {
	for claim := range named(pod) {
		if i.pods == nil {
			i.pods = map[types.NamespacedName]*corev1.Pod{}
			i.naming = map[types.NamespacedName]sorted{}
		}
		i.pods[name] = pod
		i.naming[claim.name] = i.naming[claim.name].with(name)
	}
}

// DeletePod tells that there is no pod of a name any more.
func (i *Index) DeletePod(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if i.pods[key] != nil {
		i.dropPod(key)
		i.watchers.tell(key)
	}
}

func (i *Index) dropPod(name types.NamespacedName) {
	pod := i.pods[name]
	if pod == nil {
		return
	}
	delete(i.pods, name)
	for claim := range named(pod) {
		if left := i.naming[claim.name].without(name); len(left) > 0 {
			i.naming[claim.name] = left
		} else {
			delete(i.naming, claim.name)
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
