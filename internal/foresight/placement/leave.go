package placement

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Leaving is a pod that ends, and how long after the change.
type Leaving struct {
	Pod   *corev1.Pod
	After time.Duration
}

// Evicted returns the pods that taints with the effect NoExecute evict, in the order in which
// they leave. The eviction controller does not know claims for extended resources: their pods
// stay.
func (c Cluster) Evicted() []Leaving {
	return c.evicted(c.taints())
}

// taints are those with the effect NoExecute of each device.
func (c Cluster) taints() map[usage.DeviceID][]resourceapi.DeviceTaint {
	all := map[usage.DeviceID][]resourceapi.DeviceTaint{}
	if c.View == nil {
		return all
	}
	for _, slice := range Seen(c.View, c.Patched) {
		for i := range slice.Spec.Devices {
			for _, taint := range slice.Spec.Devices[i].Taints {
				if taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
					id := usage.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}
					all[id] = append(all[id], taint)
				}
			}
		}
	}
	for rule := range c.View.Rules() {
		if rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute || rule.Spec.DeviceSelector == nil {
			continue
		}
		for _, claim := range c.Claims { // also of devices that are not published
			for id := range resultsOf(claim) {
				if selects(rule.Spec.DeviceSelector, id) && len(all[id]) == 0 {
					all[id] = append(all[id], rule.Spec.Taint)
				}
			}
		}
	}
	return all
}

func (c Cluster) evicted(taints map[usage.DeviceID][]resourceapi.DeviceTaint) (leaving []Leaving) {
	if len(taints) == 0 {
		return nil
	}
	after := map[types.NamespacedName]time.Duration{}
	for _, claim := range c.Claims {
		if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" {
			continue
		}
		for id, result := range resultsOf(claim) {
			for _, taint := range taints[id] {
				if end, leaves := endOf(result.Tolerations, taint); leaves {
					known, seen := after[nameOf(claim)]
					if !seen || end < known {
						after[nameOf(claim)] = end
					}
				}
			}
		}
	}
	return c.users(func(claim *resourceapi.ResourceClaim) (time.Duration, bool) {
		end, hit := after[nameOf(claim)]
		return end, hit
	})
}

// maxSeconds is the longest time that fits into a duration.
const maxSeconds = int64(1<<63-1) / int64(time.Second)

// endOf returns how long a taint is tolerated, and whether that ends.
func endOf(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) (time.Duration, bool) {
	period := toleration.Evaluator{EmptyEffect: toleration.EmptyEffectNoSchedule}.Evaluate(tolerations, taint)
	if period.Forever() {
		return 0, false
	}
	return time.Duration(min(ptr.Deref(period.Seconds, 0), maxSeconds)) * time.Second, true
}

// With is the change that objects make which are created or replaced.
func (c Cluster) With(objects ...any) Change {
	c.View = With(c.View, objects...)
	return Change{After: c}
}

// Drained is the change that a drain makes: rules cordon its devices, and the running pods
// that use one leave. Nothing is tolerated.
func (c Cluster) Drained(cordons []any, has func(usage.DeviceID) bool) Change {
	change := c.With(cordons...)
	change.Leaving = c.users(func(claim *resourceapi.ResourceClaim) (time.Duration, bool) {
		for id := range resultsOf(claim) {
			if has(id) {
				return 0, true
			}
		}
		return 0, false
	})
	return change
}

// On returns the running pods on a node.
func (c Cluster) On(node string) (leaving []Leaving) {
	for _, pod := range c.Pods {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil && !Finished(pod) {
			leaving = append(leaving, Leaving{Pod: pod})
		}
	}
	return inOrder(leaving)
}

// users returns the running pods with claims that are hit.
func (c Cluster) users(hit func(*resourceapi.ResourceClaim) (time.Duration, bool)) (leaving []Leaving) {
	claims := map[types.NamespacedName]time.Duration{}
	reserved := map[types.NamespacedName]*resourceapi.ResourceClaim{}
	for _, claim := range c.Claims {
		if after, is := hit(claim); is {
			claims[nameOf(claim)], reserved[nameOf(claim)] = after, claim
		}
	}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || Finished(pod) {
			continue
		}
		first, leaves := time.Duration(0), false
		for name := range claimsOf(pod) {
			if after, is := claims[name]; is && reservedFor(reserved[name], pod) && (!leaves || after < first) {
				first, leaves = after, true
			}
		}
		if leaves {
			leaving = append(leaving, Leaving{Pod: pod, After: first})
		}
	}
	return inOrder(leaving)
}

func reservedFor(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	group, grouped := groupOf(pod)
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.Resource == "pods" && (r.UID == pod.UID || r.UID == "" && r.Name == pod.Name) || r.Resource == "podgroups" && grouped && r.Name == group.Name
	})
}

func inOrder(leaving []Leaving) []Leaving {
	slices.SortFunc(leaving, func(a, b Leaving) int {
		return cmp.Or(cmp.Compare(a.After, b.After), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	return leaving
}

// resultsOf yields the devices of a claim.
func resultsOf(claim *resourceapi.ResourceClaim) func(yield func(usage.DeviceID, *resourceapi.DeviceRequestAllocationResult) bool) {
	return func(yield func(usage.DeviceID, *resourceapi.DeviceRequestAllocationResult) bool) {
		if claim.Status.Allocation == nil {
			return
		}
		for i := range claim.Status.Allocation.Devices.Results {
			r := &claim.Status.Allocation.Devices.Results[i]
			if !yield(usage.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}, r) {
				return
			}
		}
	}
}

// selects reports whether the selector of a DeviceTaintRule selects a device.
func selects(selector *resourceapi.DeviceTaintSelector, id usage.DeviceID) bool {
	is := func(wanted *string, name string) bool { return wanted == nil || *wanted == name }
	return is(selector.Driver, id.Driver) && is(selector.Pool, id.Pool) && is(selector.Device, id.Device)
}

// Again returns the pod that its controller creates in place of one that left, nil if there
// is no controller.
func Again(pod *corev1.Pod) *corev1.Pod {
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return nil
	}
	return created(pod)
}

// created is a pod like another one, before it has a node.
func created(pod *corev1.Pod) *corev1.Pod {
	next := pod.DeepCopy()
	next.UID = types.UID("again " + string(uidOf(pod)))
	next.Spec.NodeName, next.Status, next.DeletionTimestamp = "", corev1.PodStatus{}, nil
	return next
}

// atOnce reports whether the controller of a pod creates another while the first one still
// terminates, as a ReplicaSet does. A StatefulSet and a DaemonSet wait for its end, a Job
// for ten seconds, after which most pods have ended.
func atOnce(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && !slices.Contains([]string{"StatefulSet", "DaemonSet", "Job"}, owner.Kind)
}

// WithoutNodes is the change that takes nodes, with their devices and pods, away.
func (c Cluster) WithoutNodes(names ...string) Change {
	after := c
	after.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n *corev1.Node) bool { return slices.Contains(names, n.Name) })
	after.NoNodes = len(after.Nodes) == 0
	after.View = Without(c.View, func(slice *resourceapi.ResourceSlice) bool {
		return slice.Spec.NodeName != nil && slices.Contains(names, *slice.Spec.NodeName)
	})
	change := Change{After: after, Gone: names}
	for _, name := range names {
		change.Leaving = append(change.Leaving, c.On(name)...)
	}
	return change
}
