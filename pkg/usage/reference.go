package usage

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// reference is a claim that a pod names.
type reference struct {
	name types.NamespacedName
	// at is its place among those that the pod names.
	at int
	// made says that the claim was made for the pod, or for its PodGroup.
	made, extended bool
}

// named yields the claims that a pod names.
func named(pod *corev1.Pod) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		for at := range len(pod.Spec.ResourceClaims) + 1 {
			if r, ok := nameAt(pod, at); ok && !yield(r) {
				return
			}
		}
	}
}

// nameAt is the claim that a pod names at a place of its spec.resourceClaims, or after
// the last for its extended resources.
func nameAt(pod *corev1.Pod, at int) (r reference, ok bool) {
	if at == len(pod.Spec.ResourceClaims) {
		e := pod.Status.ExtendedResourceClaimStatus
		if e == nil {
			return reference{}, false
		}
		return reference{types.NamespacedName{Namespace: pod.Namespace, Name: e.ResourceClaimName}, at, true, true}, true
	}
	// An error is a claim that is not made yet, or a reference of a kind that is newer
	// than this library.
	name, made, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[at])
	if err != nil || name == nil {
		return reference{}, false
	}
	return reference{types.NamespacedName{Namespace: pod.Namespace, Name: *name}, at, made, false}, true
}

// isFor tells whether the claim was made for the pod, or with groups for its PodGroup, if
// it was made for one.
func (r reference) isFor(pod *corev1.Pod, claim *resourceapi.ResourceClaim, groups bool) bool {
	return !r.made || resourceclaim.IsForPod(pod, claim, groups && !r.extended) == nil
}

// uses tells whether a pod uses a claim that it names.
func uses(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	for r := range named(pod) {
		if r.name == name && r.isFor(pod, claim, true) {
			return resourceclaim.IsReservedForPod(pod, claim, true)
		}
	}
	return false
}

// A Use is a claim that a pod uses.
type Use struct {
	Claim *resourceapi.ResourceClaim
	// ExtendedResource says that the scheduler made the claim for extended resources.
	ExtendedResource bool
}

// Uses yields the claims that a pod uses, of those that lookup finds. groups says
// whether a reservation for its PodGroup counts.
func Uses(pod *corev1.Pod, lookup func(namespace, name string) *resourceapi.ResourceClaim, groups bool) iter.Seq[Use] {
	return func(yield func(Use) bool) {
		for r := range named(pod) {
			claim := lookup(r.name.Namespace, r.name.Name)
			if claim != nil && r.isFor(pod, claim, groups) && resourceclaim.IsReservedForPod(pod, claim, groups) &&
				!yield(Use{Claim: claim, ExtendedResource: r.extended}) {
				return
			}
		}
	}
}
