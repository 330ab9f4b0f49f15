package why

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Cluster is what is known of a cluster. What the asker may not read is left out, and
// said in Notes.
type Cluster struct {
	// View has the devices, taints and classes.
	View *tracker.Snapshot
	// Claims are all that the asker may see.
	Claims []*resourceapi.ResourceClaim
	// Nodes are where pods run. With none, the nodes that slices speak of are taken to
	// exist.
	Nodes []*corev1.Node
	// Patched looks at devices as ResourceSlicePatches make them, as a kube-scheduler does
	// that is built with them. The stock one looks at what drivers publish.
	Patched bool
	// IncompletePools is true for a kube-scheduler before 1.35: it allocates devices of
	// pools of which slices are missing, except to requests for all devices.
	IncompletePools bool
	// NoClasses is true if DeviceClasses could not be read.
	NoClasses bool
	// Gates are those of the scheduler. The zero value is the defaults of the newest
	// Kubernetes that is supported.
	Gates gates.Gates
	// Lift returns the command that ends the taint of a rule. Nil, or an empty command,
	// deletes the rule.
	Lift func(rule *resourceapi.DeviceTaintRule) string
	// Surroundings are what a pod depends on apart from its claims.
	Surroundings
	// Notes go into every report.
	Notes []string
	// Now is the time at which the objects were read. Without it, pods that cannot end are not
	// explained.
	Now time.Time
}

// Surroundings are the objects in the namespace of a pod that decide about its claims.
type Surroundings struct {
	// Pods are those of all namespaces; the others are those of the namespace of the pod.
	Pods      []*corev1.Pod
	Events    []*corev1.Event
	Templates []*resourceapi.ResourceClaimTemplate
	Groups    []*schedulingapi.PodGroup
	// Namespaces and Storage are as in [placement.Cluster].
	Namespaces []*corev1.Namespace
	Storage    placement.Storage
	// PartialPods is true if the pods of other namespaces were not read: what is left of nodes is unknown. NoTemplates is
	// true if templates were not.
	PartialPods, NoTemplates bool
	// NoGroups is true if PodGroups are not served or could not be read.
	NoGroups bool
}

// Explain returns why a claim is or is not satisfied. pod is one that uses it, nil if none
// is known: then it may run on any node.
func (w Cluster) Explain(ctx context.Context, claim *resourceapi.ResourceClaim, pod *corev1.Pod) (Explanation, error) {
	report := Explanation{Namespace: claim.Namespace, Claim: claim.Name, Notes: slices.Clone(w.Notes)}
	if allocation := claim.Status.Allocation; allocation != nil {
		report.Verdict = Allocated
		report.Message = allocated(claim)
		if claim.DeletionTimestamp != nil && pod != nil && pod.Spec.NodeName == "" {
			report.Causes = []Cause{leaving(claim, pod)}
		}
		return report, nil
	}
	if claim.DeletionTimestamp != nil {
		report.Verdict, report.Message, report.Causes = Unsatisfiable, "it is being deleted", []Cause{leaving(claim, pod)}
		return report, nil
	}
	q := w.question(placement.Defaulted(claim))
	q.pod, q.origin = pod, originOf(claim, pod)
	return q.explain(ctx)
}

// explain checks each device, asks the allocator, and finds causes if it has no answer.
func (q *question) explain(ctx context.Context) (Explanation, error) {
	report := Explanation{Namespace: q.claim.Namespace, Claim: q.claim.Name, Notes: slices.Clone(q.cluster.Notes)}
	if err := q.candidates(); err != nil {
		return report, err
	}
	if len(q.cluster.Nodes) == 0 {
		report.Notes = append(report.Notes, "no Nodes were read: assuming the nodes that ResourceSlices name")
	}
	q.requests = requests(q.claim)
	for _, r := range q.requests {
		report.Requests = append(report.Requests, q.request(ctx, r))
	}
	if err := q.verdict(ctx, &report); err != nil || report.Verdict == Allocatable {
		return report, err
	}
	report.Causes = Rank(q.causes(ctx, &report))
	return report, ctx.Err()
}

func allocated(claim *resourceapi.ResourceClaim) string {
	text := ""
	for _, r := range claim.Status.Allocation.Devices.Results {
		text += fmt.Sprintf("%s for request %s, ", usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}, r.Request)
	}
	text += "used by " + consumers(claim)
	if claim.DeletionTimestamp != nil {
		text += "; it is being deleted"
	}
	return text
}

// consumers names who a claim is reserved for.
func consumers(claim *resourceapi.ResourceClaim) string {
	text := ""
	for i, r := range claim.Status.ReservedFor {
		if i > 0 {
			text += ", "
		}
		if i == 3 {
			return text + fmt.Sprintf("%d others", len(claim.Status.ReservedFor)-i)
		}
		kind := r.Resource
		if r.APIGroup == "" && r.Resource == "pods" {
			kind = "pod"
		}
		text += kind + " " + r.Name
	}
	if text == "" {
		return "no pod"
	}
	return text
}

// A question is about one claim.
type question struct {
	cluster Cluster
	claim   *resourceapi.ResourceClaim
	// pod is the one that waits, nil if none is known.
	pod *corev1.Pod
	// origin is the object that has the spec of the claim.
	origin   origin
	requests []asked
	// extended are the places of the requests in a pod with extended resources.
	extended []extendedPath
	// others are the other claims of the pod that have no devices yet.
	others []*resourceapi.ResourceClaim
	// slices are what the scheduler looks at, pools whether they are complete.
	slices []*resourceapi.ResourceSlice
	pools  map[placement.PoolID]placement.Pool
	nodes  []*corev1.Node
	byName map[string]*corev1.Node
	// where is the nodes in words.
	where string
	// holders are the claims that have a device for themselves.
	holders map[usage.DeviceID]*resourceapi.ResourceClaim
	// users are the claims that have a device or a share of it.
	users map[usage.DeviceID][]*resourceapi.ResourceClaim
	cache *placement.Cache
	// features are what the allocator uses.
	features structured.Features
}

func (w Cluster) question(claim *resourceapi.ResourceClaim) *question {
	q := &question{cluster: w, claim: claim, features: placement.Known(w.Gates).Features}
	q.cache = placement.NewCache(q.features)
	q.holders, q.users = map[usage.DeviceID]*resourceapi.ResourceClaim{}, map[usage.DeviceID][]*resourceapi.ResourceClaim{}
	q.slices = placement.Seen(w.View, w.Patched)
	q.pools = placement.Pools(q.slices, q.features)
	for _, other := range w.Claims {
		if other.Status.Allocation == nil {
			continue
		}
		for _, r := range other.Status.Allocation.Devices.Results {
			if r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			id := usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			q.users[id] = append(q.users[id], other)
			if r.ShareID == nil || !q.features.ConsumableCapacity { // without the gate, a share takes the device
				q.holders[id] = other
			}
		}
	}
	return q
}

// An asked is a request or an alternative of one.
type asked struct {
	name, class string
	// path is where it is in the spec of the claim.
	path        string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	admin       bool
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
	capacity    *resourceapi.CapacityRequirements
	// request and alternative are its places in the lists.
	request, alternative int
}

// in returns the parts of the request in a claim that may be changed.
func (a asked) in(claim *resourceapi.ResourceClaim) (count *int64, selectors *[]resourceapi.DeviceSelector, capacity **resourceapi.CapacityRequirements) {
	r := &claim.Spec.Devices.Requests[a.request]
	if a.alternative < 0 {
		return &r.Exactly.Count, &r.Exactly.Selectors, &r.Exactly.Capacity
	}
	s := &r.FirstAvailable[a.alternative]
	return &s.Count, &s.Selectors, &s.Capacity
}

func requests(claim *resourceapi.ResourceClaim) (all []asked) {
	for i, r := range claim.Spec.Devices.Requests {
		if e := r.Exactly; e != nil {
			all = append(all, asked{
				name: r.Name, class: e.DeviceClassName, path: pointer("devices", "requests", i, "exactly"), mode: e.AllocationMode, count: e.Count,
				admin: e.AdminAccess != nil && *e.AdminAccess, selectors: e.Selectors, tolerations: e.Tolerations, capacity: e.Capacity, request: i, alternative: -1,
			})
		}
		for j, s := range r.FirstAvailable {
			all = append(all, asked{
				name: r.Name + "/" + s.Name, class: s.DeviceClassName, path: pointer("devices", "requests", i, "firstAvailable", j), mode: s.AllocationMode, count: s.Count,
				selectors: s.Selectors, tolerations: s.Tolerations, capacity: s.Capacity, request: i, alternative: j,
			})
		}
	}
	for i := range all {
		if all[i].mode == resourceapi.DeviceAllocationModeAll {
			all[i].count = 0
		}
	}
	return all
}

// originOf finds the object to change if the claim should be another.
func originOf(claim *resourceapi.ResourceClaim, pod *corev1.Pod) origin {
	o := origin{resource: "resourceclaim", namespace: claim.Namespace, name: claim.Name, spec: "/spec"}
	if pod == nil {
		return o
	}
	for _, reference := range pod.Spec.ResourceClaims {
		if template := reference.ResourceClaimTemplateName; template != nil && claim.Annotations[resourceapi.PodResourceClaimAnnotation] == reference.Name && metav1.IsControlledBy(claim, pod) {
			return origin{resource: "resourceclaimtemplate", namespace: claim.Namespace, name: *template, spec: "/spec/spec", pod: pod}
		}
	}
	return o
}

// tolerated reports whether a request tolerates a taint.
func (a asked) tolerated(taint resourceapi.DeviceTaint) bool {
	return slices.ContainsFunc(a.tolerations, func(t resourceapi.DeviceToleration) bool {
		return toleration.Evaluator{}.Tolerates(t, taint)
	})
}

func sorted[K cmp.Ordered](counted map[K]int) []K {
	return slices.SortedFunc(maps.Keys(counted), func(a, b K) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b))
	})
}
