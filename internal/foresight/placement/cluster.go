package placement

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/kubernetes/extendedresource"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// A Cluster holds the objects that decide where pods land. It is read-only.
type Cluster struct {
	// View has the devices, taints and classes; nil has none.
	View *tracker.Snapshot
	// Claims, Pods, Templates and Groups are those of all namespaces, Nodes all nodes.
	Claims    []*resourceapi.ResourceClaim
	Pods      []*corev1.Pod
	Nodes     []*corev1.Node
	Templates []*resourceapi.ResourceClaimTemplate
	Groups    []*schedulingapi.PodGroup
	// Namespaces are read for pod affinity, nil if they were not.
	Namespaces []*corev1.Namespace
	Storage
	// NoNodes is true if the cluster has no nodes. Otherwise, with none, the nodes that slices
	// name are taken to exist.
	NoNodes bool
	// Patched looks at devices as ResourceSlicePatches make them, as a kube-scheduler does
	// that is built with them.
	Patched bool
	// IncompletePools is true for a kube-scheduler before 1.35: it allocates devices of
	// pools of which slices are missing, and reads counter sets from the slices of devices.
	IncompletePools bool
	// Gates are those of the scheduler. The zero value is the defaults of the newest
	// Kubernetes that is supported.
	Gates gates.Gates
	// Steps bound the search for the devices of pods of one kind; 0 for what lets a server answer within a second.
	Steps int
	// Now is when the objects were read. Without it, all pods that are being deleted end soon.
	Now time.Time
	// Notes go into every answer: what could not be read.
	Notes []string
}

// Begin returns a simulation in which nothing has changed.
func (c Cluster) Begin() *Simulation {
	if c.View == nil {
		c.View = &tracker.Snapshot{}
	}
	seen, features := Seen(c.View, c.Patched), Known(c.Gates).Features
	if c.IncompletePools {
		seen = Separated(Completed(seen, Pools(seen, features)))
	}
	s := &Simulation{
		slices: seen, claims: map[types.NamespacedName]*resourceapi.ResourceClaim{}, templates: map[types.NamespacedName]*resourceapi.ResourceClaimTemplate{},
		groups: map[types.NamespacedName]*schedulingapi.PodGroup{}, pods: map[types.UID]*corev1.Pod{}, misses: map[string]*misses{}, slow: map[string]Reason{}, most: cmp.Or(c.Steps, kindSteps),
		devices: Allocator{Features: features, State: Allocated(slices.Values(c.Claims), features), Classes: Classes{c.View}, Slices: ByNode(seen), Cache: NewCache(features)},
		classes: extendedClasses(c.View), storage: c.Storage.index(), anti: map[types.UID]*corev1.Pod{},
	}
	if c.Namespaces != nil {
		s.namespaces = map[string]labels.Set{}
		for _, n := range c.Namespaces {
			s.namespaces[n.Name] = n.Labels
		}
	}
	for _, claim := range c.Claims {
		s.claims[nameOf(claim)] = Defaulted(claim)
	}
	for _, template := range c.Templates {
		s.templates[nameOf(template)] = template
	}
	for _, group := range c.Groups {
		s.groups[nameOf(group)] = group
	}
	s.nodes = make([]*node, 0, len(c.Nodes))
	s.byName = make(map[string]int, len(c.Nodes))
	if len(c.Nodes) == 0 && !c.NoNodes {
		c.Nodes = NodesOf(seen)
	}
	for _, n := range slices.SortedFunc(slices.Values(c.Nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) }) {
		s.byName[n.Name] = len(s.nodes)
		s.nodes = append(s.nodes, &node{Node: n, allocatable: amountsOf(n.Status.Allocatable)})
	}
	for _, pod := range c.Pods {
		if !Finished(pod) {
			s.pods[uidOf(pod)] = pod
			s.use(pod.Spec.NodeName, pod, 1)
		}
	}
	return s
}

// Finished reports whether the containers of a pod have ended for good: it holds no devices.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// How long pods that are being deleted take to end at most, and after the end of their grace period.
const (
	endsWithin = time.Hour
	endsAfter  = 10 * time.Minute
)

// ends reports whether a pod that is being deleted ends soon. One with a grace period of hours keeps its devices, as
// does one on a node that is dead.
func (c Cluster) ends(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	left := pod.DeletionTimestamp.Sub(c.Now)
	return c.Now.IsZero() || left <= endsWithin && left >= -endsAfter
}

// named is an object of a namespace.
type named interface {
	GetNamespace() string
	GetName() string
}

func nameOf(object named) types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(object.GetNamespace(), "default"), Name: object.GetName()}
}

// uidOf returns the UID of a pod; one of a manifest has none.
func uidOf(pod *corev1.Pod) types.UID {
	return cmp.Or(pod.UID, types.UID(nameOf(pod).String()))
}

// extendedClasses returns the class of each extended resource.
func extendedClasses(view *tracker.Snapshot) map[corev1.ResourceName]*resourceapi.DeviceClass {
	classes := map[corev1.ResourceName]*resourceapi.DeviceClass{}
	for class := range view.Classes() {
		classes[corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix+class.Name)] = class
		if name := corev1.ResourceName(ptr.Deref(class.Spec.ExtendedResourceName, "")); name != "" {
			if known := classes[name]; known == nil || extendedresource.Supersedes(class, known) {
				classes[name] = class
			}
		}
	}
	return classes
}

// Defaulted returns a claim with what the API server fills in: a manifest may be without it.
func Defaulted(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	if !slices.ContainsFunc(claim.Spec.Devices.Requests, incomplete) {
		return claim
	}
	filled := claim.DeepCopy()
	for i := range filled.Spec.Devices.Requests {
		r := &filled.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			fill(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			fill(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
	return filled
}

func incomplete(r resourceapi.DeviceRequest) bool {
	lacks := func(mode resourceapi.DeviceAllocationMode, count int64) bool {
		return mode == "" || mode == resourceapi.DeviceAllocationModeExactCount && count == 0
	}
	return r.Exactly != nil && lacks(r.Exactly.AllocationMode, r.Exactly.Count) ||
		slices.ContainsFunc(r.FirstAvailable, func(s resourceapi.DeviceSubRequest) bool { return lacks(s.AllocationMode, s.Count) })
}

func fill(mode *resourceapi.DeviceAllocationMode, count *int64) {
	*mode = cmp.Or(*mode, resourceapi.DeviceAllocationModeExactCount)
	if *mode == resourceapi.DeviceAllocationModeExactCount {
		*count = cmp.Or(*count, 1)
	}
}

// With returns a view with objects added, or in place of those with the same name.
func With(view *tracker.Snapshot, objects ...any) *tracker.Snapshot {
	return tracker.Merge(append(objectsOf(view, nil), objects...)...)
}

// Without returns a view without the slices that drop returns true for.
func Without(view *tracker.Snapshot, drop func(*resourceapi.ResourceSlice) bool) *tracker.Snapshot {
	return tracker.Merge(objectsOf(view, drop)...)
}

func objectsOf(view *tracker.Snapshot, drop func(*resourceapi.ResourceSlice) bool) (all []any) {
	if view == nil {
		return nil
	}
	for slice := range view.StoredSlices() {
		if drop == nil || !drop(slice) {
			all = append(all, slice)
		}
	}
	for class := range view.Classes() {
		all = append(all, class)
	}
	for rule := range view.Rules() {
		all = append(all, rule)
	}
	for patch := range view.Patches() {
		all = append(all, patch)
	}
	return all
}

// cloneMisses copies what is known of nodes where pods do not fit.
func cloneMisses(all map[string]*misses) map[string]*misses {
	copied := maps.Clone(all)
	for key, m := range copied {
		copied[key] = &misses{why: slices.Clone(m.why), example: maps.Clone(m.example), count: m.count}
	}
	return copied
}
