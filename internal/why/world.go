package why

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A World is what is known of a cluster. What the asker may not read is left out, and
// said in Notes.
type World struct {
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
	// IncompletePools says that kube-scheduler is older than 1.35: it gives away devices of
	// pools of which slices are missing, except to requests for all devices.
	IncompletePools bool
	// NoClasses says that DeviceClasses could not be read.
	NoClasses bool
	// Notes go into every report.
	Notes []string
}

// features are those that Kubernetes 1.37 has switched on.
func features() structured.Features {
	return structured.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true,
		DeviceTaints: true, PartitionableDevices: true, PrioritizedList: true,
	}
}

// celEntries bounds how many compiled expressions are remembered.
const celEntries = 1000

// Explain says why a claim is or is not satisfied. pod is one that uses it, nil if none
// is known: then it may run on any node.
func (w World) Explain(ctx context.Context, claim *resourceapi.ResourceClaim, pod *corev1.Pod) (Report, error) {
	report := Report{Namespace: claim.Namespace, Claim: claim.Name, Notes: slices.Clone(w.Notes)}
	if allocation := claim.Status.Allocation; allocation != nil {
		report.Verdict = Allocated
		report.Message = allocated(claim)
		return report, nil
	}
	q := w.question(defaulted(claim))
	if err := q.candidates(pod); err != nil {
		return report, err
	}
	if len(w.Nodes) == 0 {
		report.Notes = append(report.Notes, "no Nodes were read: assuming the nodes that ResourceSlices name")
	}
	for _, r := range requests(q.claim) {
		report.Requests = append(report.Requests, q.request(ctx, r))
	}
	return report, q.judge(ctx, &report)
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
	world World
	claim *resourceapi.ResourceClaim
	// beside are the other claims of the pod that have no devices yet.
	beside []*resourceapi.ResourceClaim
	// slices are what the scheduler looks at, pools whether they are complete.
	slices []*resourceapi.ResourceSlice
	pools  map[poolID]poolState
	nodes  []*corev1.Node
	// holders are the claims that have a device for themselves.
	holders map[usage.DeviceID]*resourceapi.ResourceClaim
	cache   *dracel.Cache
}

func (w World) question(claim *resourceapi.ResourceClaim) *question {
	q := &question{world: w, claim: claim, cache: dracel.NewCache(celEntries, dracel.Features{}), holders: map[usage.DeviceID]*resourceapi.ResourceClaim{}}
	for _, merged := range w.View.List(nil) {
		q.slices = append(q.slices, w.seen(merged))
	}
	q.pools = pools(q.slices)
	for _, other := range w.Claims {
		if other.Status.Allocation == nil {
			continue
		}
		for _, r := range other.Status.Allocation.Devices.Results {
			if r.ShareID == nil && (r.AdminAccess == nil || !*r.AdminAccess) {
				q.holders[usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}] = other
			}
		}
	}
	return q
}

// seen returns a slice as the scheduler sees it: published, with the taints of rules.
func (w World) seen(merged *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	published := w.View.Published(merged.Name)
	if w.Patched || merged == published {
		return merged
	}
	seen := *published
	seen.Spec.Devices = slices.Clone(published.Spec.Devices)
	for i := range seen.Spec.Devices {
		seen.Spec.Devices[i].Taints = merged.Spec.Devices[i].Taints
	}
	return &seen
}

// An asked is a request or an alternative of one.
type asked struct {
	name, class string
	mode        resourceapi.DeviceAllocationMode
	count       int64
	admin       bool
	selectors   []resourceapi.DeviceSelector
	tolerations []resourceapi.DeviceToleration
}

func requests(claim *resourceapi.ResourceClaim) (all []asked) {
	for _, r := range claim.Spec.Devices.Requests {
		if e := r.Exactly; e != nil {
			all = append(all, asked{r.Name, e.DeviceClassName, e.AllocationMode, e.Count, e.AdminAccess != nil && *e.AdminAccess, e.Selectors, e.Tolerations})
		}
		for _, s := range r.FirstAvailable {
			all = append(all, asked{r.Name + "/" + s.Name, s.DeviceClassName, s.AllocationMode, s.Count, false, s.Selectors, s.Tolerations})
		}
	}
	for i := range all {
		if all[i].mode == resourceapi.DeviceAllocationModeAll {
			all[i].count = 0
		}
	}
	return all
}

// defaulted fills in what the API server would: a manifest may be without it.
func defaulted(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	fill := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		*mode = cmp.Or(*mode, resourceapi.DeviceAllocationModeExactCount)
		if *mode == resourceapi.DeviceAllocationModeExactCount {
			*count = cmp.Or(*count, 1)
		}
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

// tolerated reports whether a request tolerates a taint.
func (a asked) tolerated(taint resourceapi.DeviceTaint) bool {
	return slices.ContainsFunc(a.tolerations, func(t resourceapi.DeviceToleration) bool {
		return resourceclaim.ToleratesTaint(t, taint)
	})
}

func sorted[K cmp.Ordered](counted map[K]int) []K {
	return slices.SortedFunc(maps.Keys(counted), func(a, b K) int {
		return cmp.Or(cmp.Compare(counted[b], counted[a]), cmp.Compare(a, b))
	})
}
