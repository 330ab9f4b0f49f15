package manager

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/memory/compact"
)

// stripPod is a transform for the informer of pods. It keeps the fields that decisions, API
// calls and events need.
func stripPod(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.Pod:
		return strip(object), nil
	case cache.DeletedFinalStateUnknown:
		return object, nil
	}
	return nil, fmt.Errorf("unexpected %T among the pods", object)
}

func strip(pod *corev1.Pod) *corev1.Pod {
	m := pod.ObjectMeta
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: compact.Labels(m.Labels), OwnerReferences: compact.Owner(&m),
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}}
	kept.Spec.NodeName = pod.Spec.NodeName
	kept.Spec.ResourceClaims = compact.Claims(pod)
	kept.Spec.SchedulingGroup = pod.Spec.SchedulingGroup
	kept.Spec.Priority = pod.Spec.Priority
	kept.Status.Phase = pod.Status.Phase
	kept.Status.ResourceClaimStatuses = pod.Status.ResourceClaimStatuses
	kept.Status.ExtendedResourceClaimStatus = pod.Status.ExtendedResourceClaimStatus
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget || condition.Type == corev1.PodReady { // budgets count ready pods
			kept.Status.Conditions = append(kept.Status.Conditions, condition)
		}
	}
	return kept
}
