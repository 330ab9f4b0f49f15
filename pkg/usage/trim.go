package usage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

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
