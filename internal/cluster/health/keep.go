package health

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/controller/condition"
)

// Keep adds what [Records] read to what a transform of an informer keeps of pods and claims, and the conditions of
// nodes.
func Keep(keep func(any) (any, error)) func(any) (any, error) {
	return func(object any) (any, error) {
		kept, err := keep(object)
		if err != nil {
			return kept, err
		}
		switch object := object.(type) {
		case *corev1.Pod:
			if to, is := kept.(*corev1.Pod); is && to != object {
				to.Status.InitContainerStatuses = statuses(object.Status.InitContainerStatuses)
				to.Status.ContainerStatuses = statuses(object.Status.ContainerStatuses)
			}
		case *resourceapi.ResourceClaim:
			if to, is := kept.(*resourceapi.ResourceClaim); is && to != object && (slices.ContainsFunc(object.Status.Devices, says) || binds(object)) {
				to.Status.Devices = conditions(object.Status.Devices)
			}
		case *corev1.Node:
			if to, is := kept.(*corev1.Node); is && to != object {
				to.Status.Conditions = ofNode(object.Status.Conditions)
			}
		}
		return kept, nil
	}
}

// mostMessage is how many bytes of the message of a condition of a node are kept.
const mostMessage = 1024

// ofNode are conditions without their times, which change with each heartbeat.
func ofNode(all []corev1.NodeCondition) (kept []corev1.NodeCondition) {
	for _, c := range all {
		kept = append(kept, corev1.NodeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: strings.Clone(condition.Bounded(c.Message, mostMessage))})
	}
	return kept
}

// statuses are the resources of containers; none if no container reports the health of one.
func statuses(all []corev1.ContainerStatus) (kept []corev1.ContainerStatus) {
	for i := range all {
		if len(all[i].AllocatedResourcesStatus) > 0 {
			kept = append(kept, corev1.ContainerStatus{Name: all[i].Name, AllocatedResourcesStatus: all[i].AllocatedResourcesStatus})
		}
	}
	return kept
}

// says is true if a driver reports that a device works, or that it is broken.
func says(status resourceapi.AllocatedDeviceStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool { return slices.Contains(brokenIfFalse(), c.Type) })
}

// conditions are what drivers say of devices, without the data of networks and of drivers.
func conditions(all []resourceapi.AllocatedDeviceStatus) (kept []resourceapi.AllocatedDeviceStatus) {
	for i := range all {
		kept = append(kept, resourceapi.AllocatedDeviceStatus{Driver: all[i].Driver, Pool: all[i].Pool, Device: all[i].Device, ShareID: all[i].ShareID, Conditions: all[i].Conditions})
	}
	return kept
}

// binds reports whether a device of a claim has binding conditions: drivers report them in the status.
func binds(claim *resourceapi.ResourceClaim) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.BindingConditions)+len(r.BindingFailureConditions) > 0
	})
}

// SameStatus reports whether two pods report the same health.
func SameStatus(a, b *corev1.Pod) bool {
	same := func(a, b []corev1.ContainerStatus) bool {
		return slices.EqualFunc(statuses(a), statuses(b), func(a, b corev1.ContainerStatus) bool {
			return slices.EqualFunc(a.AllocatedResourcesStatus, b.AllocatedResourcesStatus, func(a, b corev1.ResourceStatus) bool {
				return a.Name == b.Name && slices.EqualFunc(a.Resources, b.Resources, func(a, b corev1.ResourceHealth) bool { return a.ResourceID == b.ResourceID && a.Health == b.Health })
			})
		})
	}
	return same(a.Status.ContainerStatuses, b.Status.ContainerStatuses) && same(a.Status.InitContainerStatuses, b.Status.InitContainerStatuses)
}
