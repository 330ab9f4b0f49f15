package usage

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// A Preparation is a claim that a driver has prepared on a node for a pod, as far as the API
// shows.
type Preparation struct {
	Claim *resourceapi.ResourceClaim
	Pod   *corev1.Pod
}

// Prepared returns the claims that a driver has to unprepare on a node before their pods can
// end: they have a device of the driver, and a pod of the node that has not ended uses them. The
// order is that of claims and pods.
func (i *Index) Prepared(node, driver string) (all []Preparation) {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	for _, pod := range i.pods {
		if pod.Spec.NodeName != node || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for r := range named(pod) {
			claim := i.claims[r.name]
			if claim != nil && unprepares(claim, driver) && uses(pod, claim) {
				all = append(all, Preparation{claim, pod})
			}
		}
	}
	slices.SortFunc(all, func(a, b Preparation) int {
		return cmp.Or(compareNames(nameOf(a.Claim), nameOf(b.Claim)), compareNames(nameOf(a.Pod), nameOf(b.Pod)))
	})
	return slices.Compact(all) // a pod can name a claim twice
}

// unprepares reports whether the kubelet asks a driver to unprepare a claim.
func unprepares(claim *resourceapi.ResourceClaim, driver string) bool {
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver == driver && !slices.ContainsFunc(r.SkipNodeOperations, func(o resourceapi.SkipNodeOperation) bool {
			return o == resourceapi.SkipNodeOperationAll || o == resourceapi.SkipNodeOperationNodeUnprepareResources
		})
	})
}
