package why

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"
)

// slicesEnd is how long the kubelet keeps the slices of a driver that is not registered any more,
// and some time for a driver that restarts.
const slicesEnd = time.Minute

// ending are the drivers without which a pod that is being deleted cannot end: the time of its
// grace period is over, and a driver of one of its claims publishes nothing for the node. The
// kubelet deletes the slices of a driver that is not registered any more.
func (w Cluster) ending(a *Answer, pod *corev1.Pod) (all []Cause) {
	if w.Now.IsZero() || pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || hasEnded(pod) {
		return nil
	}
	// The API server has added the grace period to the time of the deletion.
	over := w.Now.Sub(pod.DeletionTimestamp.Time)
	if over < slicesEnd {
		return nil
	}
	for _, report := range a.Claims {
		claim := w.claim(pod.Namespace, report.Claim)
		if claim == nil || claim.Status.Allocation == nil {
			continue
		}
		for _, driver := range w.goneDrivers(claim, pod.Spec.NodeName) {
			all = append(all, Cause{
				Kind: DriverGone, Claim: claim.Name, Devices: len(claim.Status.Allocation.Devices.Results),
				Message: fmt.Sprintf("the pod is Terminating, %s longer than its grace period: driver %s, which has to unprepare claim %s, is gone from node %s",
					over.Round(time.Second), driver, claim.Name, pod.Spec.NodeName),
				Remedy: fmt.Sprintf("start a pod of driver %s on node %s: the kubelet then unprepares the claim, and the pod ends; a deletion by force leaves the device prepared", driver, pod.Spec.NodeName),
			})
		}
	}
	return all
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// goneDrivers are the drivers of a claim that publish neither for a node nor the pool of the
// claim.
func (w Cluster) goneDrivers(claim *resourceapi.ResourceClaim, node string) (drivers []string) {
	for _, r := range claim.Status.Allocation.Devices.Results {
		if !slices.Contains(drivers, r.Driver) && !w.publishes(r, node) {
			drivers = append(drivers, r.Driver)
		}
	}
	return drivers
}

func (w Cluster) publishes(r resourceapi.DeviceRequestAllocationResult, node string) bool {
	for slice := range w.View.PublishedSlices() {
		if slice.Spec.Driver == r.Driver && (slice.Spec.Pool.Name == r.Pool || ptr.Deref(slice.Spec.NodeName, "") == node) {
			return true
		}
	}
	return false
}
