package usage

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

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

// The entries of the tables of an index: there is one of each for each claim and pod, so
// they are small.
type (
	claimEntry struct{ *resourceapi.ResourceClaim }
	podEntry   struct{ *corev1.Pod }
	// holding is a claim, and the place of a device among the results of its allocation.
	holding struct {
		claim  *resourceapi.ResourceClaim
		result int
	}
	// naming is a pod, and the place of a claim among those that it names.
	naming struct {
		pod *corev1.Pod
		at  int
	}
)

// Key implements [table.Entry].
func (e claimEntry) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// Key implements [table.Entry].
func (e podEntry) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
}

// Key implements [table.Entry].
func (h holding) Key() string { return h.claim.Status.Allocation.Devices.Results[h.result].Device }

// Key implements [table.Entry].
func (n naming) Key() types.NamespacedName {
	r, _ := nameAt(n.pod, n.at)
	return r.name
}

// holders yields what holds a device.
func (i *Index) holders(id DeviceID) iter.Seq[holding] {
	if held := i.devices[id.Driver][id.Pool]; held != nil {
		return held.With(id.Device)
	}
	return func(func(holding) bool) {}
}

// devicesOf yields a device of a pool, or all for nil, each once.
func devicesOf(held *table.Table[string, holding], device *string) iter.Seq[string] {
	if device == nil {
		return held.Keys()
	}
	return func(yield func(string) bool) {
		if held.Get(*device) != (holding{}) {
			yield(*device)
		}
	}
}

// allocated yields the devices of a claim by their places. One that serves several
// requests, or is allocated in shares, comes several times.
func allocated(claim *resourceapi.ResourceClaim) iter.Seq2[int, DeviceID] {
	return func(yield func(int, DeviceID) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for at, result := range claim.Status.Allocation.Devices.Results {
			if !yield(at, DeviceID{result.Driver, result.Pool, result.Device}) {
				return
			}
		}
	}
}

// sameUse tells whether two claims say the same of who uses what: the heartbeats that
// drivers write into status.devices do not matter. a is nil for one not allocated.
func sameUse(a, b *resourceapi.ResourceClaim) bool {
	if a == nil || b.Status.Allocation == nil {
		return a == nil && b.Status.Allocation == nil
	}
	return a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.Status.Allocation, b.Status.Allocation) &&
		equality.Semantic.DeepEqual(a.Status.ReservedFor, b.Status.ReservedFor) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// watchers are who wants to know of changes.
type watchers []*func(pod types.NamespacedName)

func (w watchers) tell(pod types.NamespacedName) {
	for _, changed := range w {
		(*changed)(pod)
	}
}

// Watch calls changed with the name of each pod that the index knows, and from then on of
// each that is new, has changed or is gone, or of which a claim has: its allocation, whom
// it is reserved for or who owns it. It is called after the index has changed and before
// another change: it must not block and not ask the index. No call comes after stop has
// returned.
func (i *Index) Watch(changed func(pod types.NamespacedName)) (stop func()) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for pod := range i.pods.All() {
		changed(pod.Key())
	}
	i.watchers = append(i.watchers, &changed)
	return func() {
		i.mutex.Lock()
		defer i.mutex.Unlock()
		i.watchers = slices.DeleteFunc(i.watchers, func(w *func(types.NamespacedName)) bool { return w == &changed })
	}
}

// Informers are what an [Index] listens to. Budgets may be nil.
type Informers struct {
	Claims, Pods, Budgets cache.SharedIndexInformer
}

// Listen tells the index of all that the informers know and learn. synced are done once
// it knows what there was; stop ends the listening.
func (i *Index) Listen(informers Informers) (synced []cache.DoneChecker, stop func() error, err error) {
	var stops []func() error
	stop = func() error {
		var all []error
		for _, s := range stops {
			all = append(all, s())
		}
		return errors.Join(all...)
	}
	for _, l := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{informers.Claims, handler(i.SetClaim, i.DeleteClaim)},
		{informers.Pods, handler(i.SetPod, i.DeletePod)},
		{informers.Budgets, handler(i.SetBudget, i.DeleteBudget)},
	} {
		if l.informer == nil {
			continue
		}
		handle, err := l.informer.AddEventHandler(l.handler)
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		synced = append(synced, handle.HasSyncedChecker())
		stops = append(stops, func() error { return l.informer.RemoveEventHandler(handle) })
	}
	return synced, stop, nil
}

// handler tells of objects of one type.
func handler[T *resourceapi.ResourceClaim | *corev1.Pod | *policyv1.PodDisruptionBudget](set func(T), remove func(namespace, name string)) cache.ResourceEventHandler {
	changed := func(object any) {
		if object, ok := object.(T); ok {
			set(object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: func(object any) {
			// The key is all there is of an object whose deletion was missed.
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				remove(name.Namespace, name.Name)
			}
		},
	}
}

// Trim is a transform for the informers of an [Index]: it keeps of claims, pods and
// PodDisruptionBudgets what the index looks at, and of pods without claims little more
// than their names. Owners of pods are kept, for who says whom they belong to.
func Trim(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.Pod:
		return trimPod(object), nil
	case *resourceapi.ResourceClaim:
		return trimClaim(object), nil
	case *policyv1.PodDisruptionBudget:
		kept := &policyv1.PodDisruptionBudget{ObjectMeta: trimMeta(object.ObjectMeta), Spec: object.Spec}
		kept.Status.DisruptionsAllowed = object.Status.DisruptionsAllowed
		return kept, nil
	case cache.DeletedFinalStateUnknown:
		return object, nil
	}
	return nil, fmt.Errorf("unexpected %T: an index of devices, claims and pods has no use for it", object)
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		OwnerReferences: m.OwnerReferences, DeletionTimestamp: m.DeletionTimestamp,
	}
}

func trimPod(pod *corev1.Pod) *corev1.Pod {
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	}
	kept := &corev1.Pod{ObjectMeta: trimMeta(pod.ObjectMeta)}
	kept.Labels = pod.Labels // budgets select by them
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Spec.TerminationGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	kept.Spec.ResourceClaims = pod.Spec.ResourceClaims
	kept.Spec.SchedulingGroup = pod.Spec.SchedulingGroup
	kept.Status.Phase = pod.Status.Phase
	kept.Status.ResourceClaimStatuses = pod.Status.ResourceClaimStatuses
	kept.Status.ExtendedResourceClaimStatus = pod.Status.ExtendedResourceClaimStatus
	return kept
}

func trimClaim(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	kept := &resourceapi.ResourceClaim{ObjectMeta: trimMeta(claim.ObjectMeta)}
	kept.Status.ReservedFor = claim.Status.ReservedFor
	if a := claim.Status.Allocation; a != nil {
		kept.Status.Allocation = &resourceapi.AllocationResult{AllocationTimestamp: a.AllocationTimestamp}
		kept.Status.Allocation.Devices.Results = a.Devices.Results
	}
	return kept
}
