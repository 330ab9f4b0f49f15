package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// A Simulation is a cluster in which pods leave and are placed. It is for one goroutine.
type Simulation struct {
	devices   Allocator
	slices    []*resourceapi.ResourceSlice
	classes   map[corev1.ResourceName]*resourceapi.DeviceClass
	claims    map[types.NamespacedName]*resourceapi.ResourceClaim
	templates map[types.NamespacedName]*resourceapi.ResourceClaimTemplate
	groups    map[types.NamespacedName]*schedulingapi.PodGroup
	// pods are those that exist, by their UIDs; anti are those on nodes with a required anti-affinity.
	pods, anti map[types.UID]*corev1.Pod
	// namespaces have the labels of each, nil if they were not read.
	namespaces map[string]labels.Set
	storage    storage
	// nodes are in the order of their names; one that changes is replaced.
	nodes  []*node
	byName map[string]int
	// misses are the nodes that pods of one kind do not fit on. Placing others takes
	// more, so that this stays; Remove forgets it.
	misses map[string]*misses
	// slow are the kinds of pods for which the search for devices takes too long. slowNamed counts those that name
	// their node.
	slow      map[string]Reason
	slowNamed int
	// dear counts the searches for what is in the way that used all their steps.
	dear int
	// most are the steps of the search for one kind.
	most int
	// chance selects nodes, nil selects those with the most free cpu and memory.
	chance *rand.Rand
	// quiet does not look for what of devices is in the way.
	quiet bool
	// version counts the pods that were placed.
	version int
	// made counts claims that were made.
	made int
}

// Clone returns a copy that changes independently.
func (s *Simulation) Clone() *Simulation {
	c := *s
	c.devices.State.AllocatedDevices = s.devices.State.AllocatedDevices.Clone()
	c.devices.State.AllocatedSharedDeviceIDs = s.devices.State.AllocatedSharedDeviceIDs.Clone()
	c.devices.State.AggregatedCapacity = s.devices.State.AggregatedCapacity.Clone()
	c.slow = maps.Clone(s.slow)
	c.anti = maps.Clone(s.anti)
	c.claims, c.pods, c.nodes, c.misses = maps.Clone(s.claims), maps.Clone(s.pods), slices.Clone(s.nodes), cloneMisses(s.misses)
	return &c
}

// ByChance selects among suitable nodes by chance from now on. Without, the node with the
// most free cpu and memory is selected.
func (s *Simulation) ByChance(seed uint64) { s.chance = rand.New(rand.NewPCG(seed, 1)) }

// Quiet sets whether the simulation does not look for what of devices is in the way of pods that
// do not land: without, it is faster.
func (s *Simulation) Quiet(quiet bool) { s.quiet = quiet }

// A Result is where a pod lands.
type Result struct {
	Pod *corev1.Pod
	// Node is empty if the pod fits on no node, for the Reason.
	Node string
	// Claims are those of the pod with their allocations, the new ones as well.
	Claims []*resourceapi.ResourceClaim
	Reason Reason
	// Unknown names what decides about the pod and was not checked: it can land, or not.
	Unknown []string
	// kept are the claims that were allocated before.
	kept map[types.NamespacedName]bool
}

// Lands reports whether there is a node for the pod.
func (r Result) Lands() bool { return r.Node != "" }

// Kept reports whether a claim was allocated before the pod was placed.
func (r Result) Kept(claim *resourceapi.ResourceClaim) bool { return r.kept[nameOf(claim)] }

// Add adds a claim, or puts it in place of the one with its name.
func (s *Simulation) Add(claim *resourceapi.ResourceClaim) {
	if old := s.claims[nameOf(claim)]; old != nil {
		s.devices.giveBack(old.Status.Allocation)
		s.misses = map[string]*misses{}
	}
	s.claims[nameOf(claim)] = Defaulted(claim)
	s.devices.take(claim.Status.Allocation)
}

// Claim returns a claim as it is now, nil if there is none.
func (s *Simulation) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return s.claims[types.NamespacedName{Namespace: namespace, Name: name}]
}

// Claims returns all claims as they are now, in no order.
func (s *Simulation) Claims() []*resourceapi.ResourceClaim {
	return slices.Collect(maps.Values(s.claims))
}

// Remove ends a pod. The claims that were made for it are deleted; another claim loses its
// devices with its last consumer, as kube-controller-manager takes them back.
func (s *Simulation) Remove(pod *corev1.Pod) {
	uid := uidOf(pod)
	if s.pods[uid] == nil {
		return
	}
	delete(s.pods, uid)
	s.use(pod.Spec.NodeName, pod, -1)
	s.misses = map[string]*misses{}
	for name := range claimsOf(pod) {
		claim := s.claims[name]
		switch {
		case claim == nil:
		case ownedBy(claim, pod):
			s.devices.giveBack(claim.Status.Allocation)
			delete(s.claims, name)
		default:
			s.unreserve(claim, uid)
		}
	}
}

// unreserve removes a consumer of a claim.
func (s *Simulation) unreserve(claim *resourceapi.ResourceClaim, uid types.UID) {
	changed := *claim
	changed.Status.ReservedFor = slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == uid })
	if len(changed.Status.ReservedFor) == len(claim.Status.ReservedFor) {
		return
	}
	if len(changed.Status.ReservedFor) == 0 && slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		s.devices.giveBack(claim.Status.Allocation)
		changed.Status.Allocation = nil
	}
	s.claims[nameOf(claim)] = &changed
}

// Fits returns where a pod lands now. It changes nothing.
func (s *Simulation) Fits(ctx context.Context, pod *corev1.Pod) (Result, error) {
	needs, reason := s.needs(pod)
	if reason.Kind != "" {
		return Result{Pod: pod, Reason: reason, Unknown: elseKnows(pod, reason)}, nil
	}
	r, err := s.fits(ctx, pod, needs)
	r.Unknown = s.unknown(&r, needs)
	return r, err
}

// fits tries the nodes.
func (s *Simulation) fits(ctx context.Context, pod *corev1.Pod, needs *needs) (Result, error) {
	r := Result{Pod: pod}
	key, left := kindOf(pod, needs), s.steps(pod)
	if known, is := s.slow[key]; is {
		r.Reason = known
		return r, nil
	}
	seen := s.missesOf(key, &needs.rest)
	for i := range s.order(pod, seen) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if seen.why[i] != 0 {
			continue
		}
		kind, message := s.nodes[i].against(pod, needs)
		if kind != "" {
			seen.add(i, kind, message)
			continue
		}
		claims, message, err := s.on(ctx, s.nodes[i].Node, needs, &left)
		switch {
		case err != nil:
			err = s.ended(err, key, &r)
			return r, err
		case claims == nil && len(needs.open(s.nodes[i])) > 0:
			seen.add(i, Devices, message)
			continue
		}
		r.Node, r.Claims, r.kept = s.nodes[i].Name, append(claims, needs.allocated...), map[types.NamespacedName]bool{}
		for _, claim := range needs.allocated {
			r.kept[nameOf(claim)] = true
		}
		return r, nil
	}
	r.Reason = seen.reason(s)
	if !s.quiet && len(needs.missing)+len(needs.allocated)+len(needs.classes) > 0 && len(r.Reason.Nodes) > 0 {
		return r, s.blame(ctx, &r, needs, seen)
	}
	return r, nil
}

// ended turns an error that is about the pod into a reason.
func (s *Simulation) ended(err error, kind string, r *Result) error {
	switch {
	case errors.Is(err, ErrStops):
		r.Reason = Reason{Kind: SelectorError, Message: err.Error()}
	case errors.Is(err, ErrSlow):
		r.Reason = Reason{Kind: Slow, Message: err.Error()}
		s.slow[kind] = r.Reason
		if r.Pod.Spec.NodeName != "" {
			s.slowNamed++
		}
	default:
		return err
	}
	return nil
}

// The steps of the searches of one kind of pods, of some 10 µs each: those of Cluster.Steps, and more with more nodes, up to a
// multiple. To find that 7 free devices are not 8 takes 128. With each kind that has used its steps, others get half of
// them, down to the fewest: a tenant can write many kinds. Pods that name their node are of a kind for each node: the
// next node gets a half, then a third and so on, so that it still gets some after many that are slow.
const (
	kindSteps, nodeSteps, mostTimes = 5_000, 100, 8
	fewest, fewestOfNode            = 200, 4
)

func (s *Simulation) steps(pod *corev1.Pod) int {
	if pod.Spec.NodeName != "" {
		return max(s.most/(1+s.slowNamed), fewest)
	}
	most := min(s.most+nodeSteps*len(s.nodes), mostTimes*s.most)
	return max(most>>(len(s.slow)-s.slowNamed), fewest+fewestOfNode*len(s.nodes))
}

// on allocates the devices of the claims that have none.
func (s *Simulation) on(ctx context.Context, node *corev1.Node, needs *needs, left *int) ([]*resourceapi.ResourceClaim, string, error) {
	open := needs.open(s.nodes[s.byName[node.Name]])
	if len(open) == 0 {
		return nil, "", nil
	}
	allocator := s.devices
	allocator.Steps = left
	results, message, err := allocator.On(ctx, node, open)
	if results == nil || err != nil {
		return nil, message, err
	}
	claims := make([]*resourceapi.ResourceClaim, len(open))
	for i, claim := range open {
		allocated := *claim
		allocated.Status.Allocation = &results[i]
		claims[i] = &allocated
	}
	return claims, "", nil
}

// Place places pods one after the other: what one gets is taken for the next. A gang is
// placed whole or not at all, where its first pod comes.
func (s *Simulation) Place(ctx context.Context, pods ...*corev1.Pod) ([]Result, error) {
	results, done := make([]Result, len(pods)), make([]bool, len(pods))
	for i, pod := range pods {
		if done[i] {
			continue
		}
		members := []int{i}
		least := s.gang(pod)
		if least > 0 {
			members = s.members(pods, i)
		}
		if err := s.together(ctx, pods, members, least, results); err != nil {
			return nil, err
		}
		for _, m := range members {
			done[m] = true
		}
	}
	return results, nil
}

// together places the members of a gang, or one pod.
func (s *Simulation) together(ctx context.Context, pods []*corev1.Pod, members []int, least int, results []Result) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var before *Simulation
	running := 0
	if least > 0 {
		before = s.Clone()
		running = s.scheduled(pods[members[0]])
	}
	landed := 0
	for _, m := range members {
		r, err := s.Fits(ctx, pods[m])
		if err != nil {
			return err
		}
		if results[m] = r; r.Lands() {
			landed++
			s.commit(r)
		}
	}
	if landed+running >= least {
		return nil
	}
	before.slow, before.slowNamed, before.dear = s.slow, s.slowNamed, s.dear
	*s = *before
	for _, m := range members {
		if results[m].Lands() {
			results[m] = Result{Pod: pods[m], Reason: Reason{Kind: Gang,
				Message: fmt.Sprintf("its PodGroup needs %d pods at once, of which %d land", least, landed+running)}}
		}
	}
	return nil
}

// gang returns how many pods of the group of a pod must run at once, 0 for a pod without one.
func (s *Simulation) gang(pod *corev1.Pod) int {
	name, ok := groupOf(pod)
	if group := s.groups[name]; ok && group != nil && group.Spec.SchedulingPolicy.Gang != nil {
		return int(group.Spec.SchedulingPolicy.Gang.MinCount)
	}
	return 0
}

// members are the places of the pods of a group, from the first on.
func (s *Simulation) members(pods []*corev1.Pod, first int) (all []int) {
	name, _ := groupOf(pods[first])
	for i := first; i < len(pods); i++ {
		if other, ok := groupOf(pods[i]); ok && other == name {
			all = append(all, i)
		}
	}
	return all
}

// scheduled counts the pods of a group that have a node.
func (s *Simulation) scheduled(pod *corev1.Pod) (n int) {
	name, _ := groupOf(pod)
	for _, other := range s.pods {
		if group, ok := groupOf(other); ok && group == name && other.Spec.NodeName != "" && other.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func groupOf(pod *corev1.Pod) (name types.NamespacedName, ok bool) {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return name, false
	}
	return types.NamespacedName{Namespace: nameOf(pod).Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}, true
}

// commit makes a result true.
func (s *Simulation) commit(r Result) {
	s.version++
	pod := *r.Pod
	pod.Spec.NodeName = r.Node
	pod.Status.ResourceClaimStatuses = slices.Clone(pod.Status.ResourceClaimStatuses)
	for _, claim := range r.Claims {
		name := nameOf(claim)
		if !r.kept[name] {
			s.devices.take(claim.Status.Allocation)
		}
		if !resourceclaim.IsReservedForPod(&pod, claim, true) {
			reserved := *claim
			reserved.Finalizers = []string{resourceapi.Finalizer}
			reserved.Status.ReservedFor = append(slices.Clone(claim.Status.ReservedFor),
				resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: uidOf(&pod)})
			claim = &reserved
		}
		s.claims[name] = claim
		note(&pod, claim)
	}
	s.pods[uidOf(&pod)] = &pod
	s.use(r.Node, &pod, 1)
}

// note writes the name of a claim that was made for a pod into its status.
func note(pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	if !ownedBy(claim, pod) {
		return
	}
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
		return
	}
	name := claim.Name
	for _, known := range pod.Status.ResourceClaimStatuses {
		if known.ResourceClaimName != nil && *known.ResourceClaimName == name {
			return
		}
	}
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
		corev1.PodResourceClaimStatus{Name: claim.Annotations[resourceapi.PodResourceClaimAnnotation], ResourceClaimName: &name})
}
