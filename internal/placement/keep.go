package placement

import (
	"fmt"

	"github.com/dra-steward/dra-steward/pkg/usage"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Keep is a transform for informers: it keeps the fields of objects that a World reads, and
// that usage.Trim keeps.
func Keep(object any) (any, error) {
	switch object := object.(type) {
	case *corev1.Pod:
		return keepPod(object), nil
	case *corev1.Node:
		kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion, Labels: object.Labels}}
		kept.Spec.Taints, kept.Spec.Unschedulable = object.Spec.Taints, object.Spec.Unschedulable
		kept.Status.Allocatable = object.Status.Allocatable
		return kept, nil
	case *resourceapi.ResourceClaim:
		kept := *object
		kept.ManagedFields, kept.Status.Devices = nil, nil
		return &kept, nil
	case *resourceapi.ResourceClaimTemplate:
		kept := *object
		kept.ManagedFields = nil
		return &kept, nil
	case *policyv1.PodDisruptionBudget:
		return usage.Trim(object)
	case cache.DeletedFinalStateUnknown:
		return object, nil
	}
	return nil, fmt.Errorf("unexpected %T: must be a Pod, Node, ResourceClaim, ResourceClaimTemplate or PodDisruptionBudget", object)
}

func keepPod(pod *corev1.Pod) *corev1.Pod {
	m := pod.ObjectMeta
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: m.Labels, OwnerReferences: m.OwnerReferences, DeletionTimestamp: m.DeletionTimestamp}}
	s := &pod.Spec
	kept.Spec = corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, Priority: s.Priority,
		SchedulingGates: s.SchedulingGates, SchedulingGroup: s.SchedulingGroup, ResourceClaims: s.ResourceClaims, Overhead: s.Overhead,
		Resources: s.Resources, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, TopologySpreadConstraints: s.TopologySpreadConstraints,
		InitContainers: keepContainers(s.InitContainers), Containers: keepContainers(s.Containers),
	}
	kept.Status = corev1.PodStatus{Phase: pod.Status.Phase, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	return kept
}

// keepContainers keeps what containers request, and their ports of the host.
func keepContainers(containers []corev1.Container) (kept []corev1.Container) {
	for _, c := range containers {
		one := corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				one.Ports = append(one.Ports, port)
			}
		}
		kept = append(kept, one)
	}
	return kept
}

// Stored returns the objects of a kind that an informer has.
func Stored[T any](store cache.Store) []T {
	list := store.List()
	all := make([]T, 0, len(list))
	for _, object := range list {
		if typed, is := object.(T); is {
			all = append(all, typed)
		}
	}
	return all
}
