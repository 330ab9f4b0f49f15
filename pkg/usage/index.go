package usage

import (
	"cmp"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/table"
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
// goroutines at once. It keeps the objects that it is given and does not change them, nor
// must others: their names, and the names in them, are the keys under which it has them.
type Index struct {
	mutex  sync.RWMutex
	claims table.Table[types.NamespacedName, claimEntry] // allocated ones
	pods   table.Table[types.NamespacedName, podEntry]   // those that name a claim
	// devices has what claims hold, by driver, pool and device.
	devices map[string]map[string]*table.Table[string, holding]
	// naming has the pods that name a claim, rightly or not, by the claim.
	naming   table.Table[types.NamespacedName, naming]
	budgets  map[string]map[string]*policyv1.PodDisruptionBudget // by namespace and name
	watchers watchers
}

// SetClaim tells of a claim that is new or has changed.
func (i *Index) SetClaim(claim *resourceapi.ResourceClaim) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := claimEntry{claim}.Key()
	had := i.claims.Get(name).ResourceClaim
	i.dropClaim(had)
	i.addClaim(claim)
	if !sameUse(had, claim) {
		i.tellNaming(name)
	}
}

func (i *Index) addClaim(claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	if i.devices == nil {
		i.devices = map[string]map[string]*table.Table[string, holding]{}
	}
	i.claims.Add(claimEntry{claim})
	for at, id := range allocated(claim) {
		pools := i.devices[id.Driver]
		if pools == nil {
			pools = map[string]*table.Table[string, holding]{}
			i.devices[id.Driver] = pools
		}
		if pools[id.Pool] == nil {
			pools[id.Pool] = &table.Table[string, holding]{}
		}
		pools[id.Pool].Add(holding{claim, at})
	}
}

// DeleteClaim tells that there is no claim of a name any more.
func (i *Index) DeleteClaim(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if had := i.claims.Get(key).ResourceClaim; had != nil {
		i.dropClaim(had)
		i.tellNaming(key)
	}
}

// dropClaim forgets a claim that the index has, or nil.
func (i *Index) dropClaim(claim *resourceapi.ResourceClaim) {
	if claim == nil {
		return
	}
	i.claims.Remove(claimEntry{claim})
	for at, id := range allocated(claim) {
		pools := i.devices[id.Driver]
		if pools[id.Pool].Remove(holding{claim, at}); pools[id.Pool].Len() > 0 {
			continue
		}
		if delete(pools, id.Pool); len(pools) == 0 {
			delete(i.devices, id.Driver)
		}
	}
}

// SetPod tells of a pod that is new or has changed. Of pods that name no claim nothing
// is kept.
func (i *Index) SetPod(pod *corev1.Pod) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := podEntry{pod}.Key()
	had := i.pods.Get(name).Pod
	i.dropPod(had)
	if added := i.addPod(pod); added || had != nil {
		i.watchers.tell(name)
	}
}

func (i *Index) addPod(pod *corev1.Pod) (added bool) {
	for claim := range named(pod) {
		if !added {
			i.pods.Add(podEntry{pod})
			added = true
		}
		i.naming.Add(naming{pod, claim.at})
	}
	return added
}

// DeletePod tells that there is no pod of a name any more.
func (i *Index) DeletePod(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if had := i.pods.Get(key).Pod; had != nil {
		i.dropPod(had)
		i.watchers.tell(key)
	}
}

// dropPod forgets a pod that the index has, or nil.
func (i *Index) dropPod(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	i.pods.Remove(podEntry{pod})
	for claim := range named(pod) {
		i.naming.Remove(naming{pod, claim.at})
	}
}

// tellNaming tells of the pods that name a claim.
func (i *Index) tellNaming(claim types.NamespacedName) {
	for n := range i.naming.With(claim) {
		i.watchers.tell(podEntry{n.pod}.Key())
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
