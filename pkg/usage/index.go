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
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/memory/compact"
)

// A DeviceID names a device. The device of a claim can be unpublished: the claim holds it
// while it is allocated.
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

// An Index joins claims and pods. The zero value is empty and ready for concurrent use. The
// objects in it are read-only: their names, and the names in them, are its keys.
type Index struct {
	mutex  sync.RWMutex
	claims map[types.NamespacedName]*resourceapi.ResourceClaim // allocated ones
	pods   map[types.NamespacedName]*user                      // those that name a claim
	// devices has what claims hold, by driver and pool.
	devices map[string]map[string]pool
	// naming has the pods that name a claim, whether it is reserved for them or not, by claim.
	naming   map[types.NamespacedName][]naming
	budgets  map[string]map[string]budget // by namespace and name
	watchers watchers
}

// SetClaim adds a claim, or updates it.
func (i *Index) SetClaim(claim *resourceapi.ResourceClaim) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := nameOf(claim)
	had := i.claims[name]
	if sameUse(had, claim) {
		i.replaceClaim(had, claim)
		return
	}
	i.dropClaim(had)
	i.addClaim(claim)
	i.notifyPodsNaming(name)
}

// replaceClaim puts a claim in the place of another version with the same devices; had is
// nil if neither is allocated.
func (i *Index) replaceClaim(had, claim *resourceapi.ResourceClaim) {
	if had == nil {
		return
	}
	i.claims[nameOf(claim)] = claim
	for at, id := range allocated(claim) {
		replace(i.devices[id.Driver][id.Pool][id.Device], holdingAt(had, at), holdingAt(claim, at))
	}
}

func (i *Index) addClaim(claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	if i.devices == nil {
		i.claims, i.devices = map[types.NamespacedName]*resourceapi.ResourceClaim{}, map[string]map[string]pool{}
	}
	i.claims[nameOf(claim)] = claim
	for at, id := range allocated(claim) {
		if i.devices[id.Driver] == nil {
			i.devices[id.Driver] = map[string]pool{}
		}
		if i.devices[id.Driver][id.Pool] == nil {
			i.devices[id.Driver][id.Pool] = pool{}
		}
		add(i.devices[id.Driver][id.Pool], id.Device, holdingAt(claim, at))
	}
}

// DeleteClaim removes a claim.
func (i *Index) DeleteClaim(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if had := i.claims[key]; had != nil {
		i.dropClaim(had)
		i.notifyPodsNaming(key)
	}
}

// dropClaim removes a claim that is in the index, or nil.
func (i *Index) dropClaim(claim *resourceapi.ResourceClaim) {
	if claim == nil {
		return
	}
	delete(i.claims, nameOf(claim))
	for at, id := range allocated(claim) {
		pools := i.devices[id.Driver]
		if remove(pools[id.Pool], id.Device, holdingAt(claim, at)); len(pools[id.Pool]) > 0 {
			continue
		}
		if delete(pools, id.Pool); len(pools) == 0 {
			delete(i.devices, id.Driver)
		}
	}
}

// SetPod adds a pod, or updates it. The index does not keep pods that name no claim. Most
// writes of a pod change nothing about its claims: then only the object is replaced.
func (i *Index) SetPod(pod *corev1.Pod) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	name := nameOf(pod)
	known := i.pods[name]
	if known != nil && sameNames(known.pod, pod) {
		had := known.pod
		known.pod = pod
		if !sameForEviction(had, pod) {
			i.watchers.notify(name)
		}
		return
	}
	i.dropPod(known)
	if added := i.addPod(pod); added || known != nil {
		i.watchers.notify(name)
	}
}

func (i *Index) addPod(pod *corev1.Pod) (added bool) {
	if i.pods == nil {
		i.pods, i.naming = map[types.NamespacedName]*user{}, map[types.NamespacedName][]naming{}
	}
	of := &user{pod}
	for claim := range named(pod) {
		i.pods[nameOf(pod)], added = of, true
		add(i.naming, claim.name, naming{of, claim.at})
	}
	return added
}

// DeletePod removes a pod.
func (i *Index) DeletePod(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if known := i.pods[key]; known != nil {
		i.dropPod(known)
		i.watchers.notify(key)
	}
}

// dropPod removes a pod that is in the index, or nil.
func (i *Index) dropPod(of *user) {
	if of == nil {
		return
	}
	delete(i.pods, nameOf(of.pod))
	for claim := range named(of.pod) {
		remove(i.naming, claim.name, naming{of, claim.at})
	}
}

// notifyPodsNaming notifies the watchers of all pods that name a claim.
func (i *Index) notifyPodsNaming(claim types.NamespacedName) {
	for _, n := range i.naming[claim] {
		i.watchers.notify(nameOf(n.of.pod))
	}
}

// SetBudget adds a PodDisruptionBudget, or updates it.
func (i *Index) SetBudget(b *policyv1.PodDisruptionBudget) {
	compiled := newBudget(b)
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.budgets == nil {
		i.budgets = map[string]map[string]budget{}
	}
	if i.budgets[b.Namespace] == nil {
		i.budgets[b.Namespace] = map[string]budget{}
	}
	i.budgets[b.Namespace][b.Name] = compiled
}

// DeleteBudget removes a PodDisruptionBudget.
func (i *Index) DeleteBudget(namespace, name string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if delete(i.budgets[namespace], name); len(i.budgets[namespace]) == 0 {
		delete(i.budgets, namespace)
	}
}

type (
	// pool has the claims that hold a device of a pool, by device.
	pool = map[string][]holding
	// holding is a claim, and the result of its allocation that names the device.
	holding struct {
		claim  *resourceapi.ResourceClaim
		result *resourceapi.DeviceRequestAllocationResult
	}
	// user is a pod that names claims, in its newest version.
	user struct{ pod *corev1.Pod }
	// naming is a pod, and the index of a claim among those that it names.
	naming struct {
		of *user
		at int
	}
)

func holdingAt(claim *resourceapi.ResourceClaim, at int) holding {
	return holding{claim, &claim.Status.Allocation.Devices.Results[at]}
}

func add[K, E comparable](lists map[K][]E, key K, e E) { lists[key] = append(lists[key], e) }

func remove[K, E comparable](lists map[K][]E, key K, e E) {
	list := lists[key]
	if at := slices.Index(list, e); at >= 0 {
		last := len(list) - 1
		list[at] = list[last]
		lists[key] = slices.Delete(list, last, last+1)
	}
	if len(lists[key]) == 0 {
		delete(lists, key)
	}
}

func replace[E comparable](list []E, old, e E) {
	if at := slices.Index(list, old); at >= 0 {
		list[at] = e
	}
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// holders are the claims that hold a device.
func (i *Index) holders(id DeviceID) []holding { return i.devices[id.Driver][id.Pool][id.Device] }

// allocated yields the devices of a claim by their index. A device that serves several
// requests, or is allocated in shares, is among them several times.
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

// sameUse reports whether two versions of a claim have the same allocation, reservations and
// owners. Drivers write heartbeats to status.devices, which does not matter. a is nil for a
// claim that is not allocated.
func sameUse(a, b *resourceapi.ResourceClaim) bool {
	if a == nil || b.Status.Allocation == nil {
		return a == nil && b.Status.Allocation == nil
	}
	return a.UID == b.UID &&
		equality.Semantic.DeepEqual(a.Status.Allocation, b.Status.Allocation) &&
		equality.Semantic.DeepEqual(a.Status.ReservedFor, b.Status.ReservedFor) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences)
}

// watchers are the functions to call for changes.
type watchers []*func(pod types.NamespacedName)

func (w watchers) notify(pod types.NamespacedName) {
	for _, changed := range w {
		(*changed)(pod)
	}
}

// Watch calls changed with the name of each pod in the index, and from then on of each pod
// that is new or deleted, that changes in a field that evictions depend on, or of which a
// claim changes: its allocation, reservations or owners. The fields of a pod are its UID,
// node, phase, deletion time, claim names, scheduling group and condition DisruptionTarget.
//
// The call follows the change of the index and precedes the next one: changed must neither
// block nor use the index. No call comes after stop has returned.
func (i *Index) Watch(changed func(pod types.NamespacedName)) (stop func()) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for pod := range i.pods {
		changed(pod)
	}
	i.watchers = append(i.watchers, &changed)
	return func() {
		i.mutex.Lock()
		defer i.mutex.Unlock()
		i.watchers = slices.DeleteFunc(i.watchers, func(w *func(types.NamespacedName)) bool { return w == &changed })
	}
}

// sameNames reports whether two versions of a pod name the same claims at the same places.
func sameNames(a, b *corev1.Pod) bool {
	return a.UID == b.UID &&
		slices.EqualFunc(a.Spec.ResourceClaims, b.Spec.ResourceClaims, func(a, b corev1.PodResourceClaim) bool {
			return a.Name == b.Name && ptr.Equal(a.ResourceClaimName, b.ResourceClaimName)
		}) &&
		slices.EqualFunc(a.Status.ResourceClaimStatuses, b.Status.ResourceClaimStatuses, func(a, b corev1.PodResourceClaimStatus) bool {
			return a.Name == b.Name && ptr.Equal(a.ResourceClaimName, b.ResourceClaimName)
		}) &&
		equalOr(a.Spec.SchedulingGroup, b.Spec.SchedulingGroup, sameGroup) &&
		equalOr(a.Status.ExtendedResourceClaimStatus, b.Status.ExtendedResourceClaimStatus, sameExtended)
}

func sameGroup(a, b *corev1.PodSchedulingGroup) bool {
	return ptr.Equal(a.PodGroupName, b.PodGroupName)
}

func sameExtended(a, b *corev1.PodExtendedResourceClaimStatus) bool {
	return a.ResourceClaimName == b.ResourceClaimName
}

// equalOr compares what pointers point to, if both are set.
func equalOr[T any](a, b *T, same func(a, b *T) bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return same(a, b)
}

// sameForEviction reports whether two versions of a pod that name the same claims are equal
// in the other fields that evictions depend on.
func sameForEviction(a, b *corev1.Pod) bool {
	return a.Spec.NodeName == b.Spec.NodeName && a.Status.Phase == b.Status.Phase && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equalOr(disruptionTarget(a), disruptionTarget(b), func(a, b *corev1.PodCondition) bool {
			return a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}

func disruptionTarget(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.DisruptionTarget {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Informers feed an [Index]. Each may be nil.
type Informers struct {
	Claims, Pods, Budgets cache.SharedIndexInformer
}

// Listen feeds the index from informers. synced are done once it has their initial lists;
// stop removes its event handlers.
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

// handler returns an event handler for objects of one type.
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
			// After a missed deletion only the key is known.
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				remove(name.Namespace, name.Name)
			}
		},
	}
}

// Trim is a transform for the informers of an [Index]. It keeps the fields of claims, pods and
// PodDisruptionBudgets that the index reads, of pods without claims little more than their
// names. Of owners it keeps the controller. It keeps no labels of a pod with more than 256, or 16 KiB
// of them, and no claims of a pod that does not run and names more than 256.
func Trim(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.Pod:
		return trimPod(object), nil
	case *resourceapi.ResourceClaim:
		return trimClaim(object), nil
	case *policyv1.PodDisruptionBudget:
		return trimBudget(object), nil
	case cache.DeletedFinalStateUnknown:
		return object, nil
	}
	return nil, fmt.Errorf("unexpected %T: must be a Pod, ResourceClaim or PodDisruptionBudget", object)
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		OwnerReferences: compact.Owner(&m), DeletionTimestamp: m.DeletionTimestamp,
	}
}

func trimPod(pod *corev1.Pod) *corev1.Pod {
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	}
	kept := &corev1.Pod{ObjectMeta: trimMeta(pod.ObjectMeta)}
	kept.Labels = compact.Labels(pod.Labels) // budgets select by them
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Spec.TerminationGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	kept.Spec.ResourceClaims = compact.Claims(pod)
	kept.Spec.SchedulingGroup = pod.Spec.SchedulingGroup
	kept.Status.Phase = pod.Status.Phase
	kept.Status.ResourceClaimStatuses = pod.Status.ResourceClaimStatuses
	kept.Status.ExtendedResourceClaimStatus = pod.Status.ExtendedResourceClaimStatus
	if c := disruptionTarget(pod); c != nil {
		kept.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime}}
	}
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

// A Preparation is a claim that a driver has prepared on a node for a pod, as far as the API
// shows.
type Preparation struct {
	Claim *resourceapi.ResourceClaim
	Pod   *corev1.Pod
}

// Prepared returns, for each of some nodes, the claims that a driver has to unprepare there before their pods can end: they
// have a device of the driver, and a pod of the node that has not ended uses them. The order is that of claims and pods.
// Without nodes it returns those of all nodes.
func (i *Index) Prepared(driver string, of ...string) map[string][]Preparation {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	nodes := map[string][]Preparation{}
	for _, known := range i.pods {
		pod := known.pod
		node := pod.Spec.NodeName
		if node == "" || len(of) > 0 && !slices.Contains(of, node) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for r := range named(pod) {
			claim := i.claims[r.name]
			if claim != nil && unprepares(claim, driver) && uses(pod, claim) {
				nodes[node] = append(nodes[node], Preparation{claim, pod})
			}
		}
	}
	for node, all := range nodes {
		slices.SortFunc(all, func(a, b Preparation) int {
			return cmp.Or(compareNames(nameOf(a.Claim), nameOf(b.Claim)), compareNames(nameOf(a.Pod), nameOf(b.Pod)))
		})
		nodes[node] = slices.Compact(all) // a pod can name a claim twice
	}
	return nodes
}

// unprepares reports whether the kubelet asks a driver to unprepare a claim.
func unprepares(claim *resourceapi.ResourceClaim, driver string) bool {
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver == driver && !slices.ContainsFunc(r.SkipNodeOperations, func(o resourceapi.SkipNodeOperation) bool {
			return o == resourceapi.SkipNodeOperationAll || o == resourceapi.SkipNodeOperationNodeUnprepareResources
		})
	})
}
