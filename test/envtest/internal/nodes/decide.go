package nodes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

const (
	hostIP = "127.0.0.1"
	// sigterm is the exit code of a container that a signal has ended.
	sigterm = 143
	// claimsRetry is the time after which a pod whose claims were not ready is
	// looked at again, since a claim may be reserved for more than this pod.
	claimsRetry = time.Second
)

// step is what a stand-in does to a pod.
type step int

const (
	keep  step = iota // nothing
	begin             // make it Running and Ready
	end               // make it Failed and remove it
)

// decide says what is due for a pod at the given time and, if nothing is, after
// which time something may be; 0 if only a change of an object brings it about.
func decide(pod *corev1.Pod, claim func(name string) *resourceapi.ResourceClaim, grace float64, now time.Time) (step, time.Duration) {
	switch {
	case pod.DeletionTimestamp != nil:
		if left := endOf(pod, grace).Sub(now); left > 0 && !finished(pod) {
			return keep, left
		}
		return end, 0
	case finished(pod) || begun(pod):
		return keep, 0
	case !claimsReady(pod, claim):
		return keep, claimsRetry
	default:
		return begin, 0
	}
}

// endOf is when a pod that is being deleted ends: its deletionTimestamp lies a
// whole grace period after the request.
func endOf(pod *corev1.Pod, grace float64) time.Time {
	if pod.DeletionGracePeriodSeconds == nil {
		return pod.DeletionTimestamp.Time
	}
	period := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	return pod.DeletionTimestamp.Add(-period).Add(time.Duration(grace * float64(period)))
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// begun says whether the pod's status is as running makes it.
func begun(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && readyCondition(pod) == readiness(pod)
}

// claimsReady says whether every claim of the pod is allocated and reserved for
// it. An optional claim that was not needed counts as ready.
func claimsReady(pod *corev1.Pod, claim func(name string) *resourceapi.ResourceClaim) bool {
	usable := func(c *resourceapi.ResourceClaim) bool {
		return c != nil && c.Status.Allocation != nil && resourceclaim.IsReservedForPod(pod, c, true)
	}
	for i := range pod.Spec.ResourceClaims {
		name, mustOwn, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return false // not created yet
		}
		if name == nil {
			continue
		}
		c := claim(*name)
		if !usable(c) || mustOwn && resourceclaim.IsForPod(pod, c, true) != nil {
			return false
		}
	}
	extended := pod.Status.ExtendedResourceClaimStatus
	return extended == nil || usable(claim(extended.ResourceClaimName))
}

// readiness is what the Ready condition has to be: all readiness gates are open.
func readiness(pod *corev1.Pod) corev1.ConditionStatus {
	for _, gate := range pod.Spec.ReadinessGates {
		open := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		})
		if !open {
			return corev1.ConditionFalse
		}
	}
	return corev1.ConditionTrue
}

func readyCondition(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status
		}
	}
	return ""
}

// running returns the status of a pod whose containers run.
func running(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	at := metav1.NewTime(now)
	status.Phase = corev1.PodRunning
	if status.StartTime == nil {
		status.StartTime = &at
	}
	status.HostIP, status.HostIPs = hostIP, []corev1.HostIP{{IP: hostIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady} {
		setCondition(&status, kind, corev1.ConditionTrue, "", at)
	}
	setCondition(&status, corev1.PodReady, readiness(pod), "", at)
	begun := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
	finished := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at, FinishedAt: at}}
	status.InitContainerStatuses = nil
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(c, begun, true))
		} else {
			status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(c, finished, true))
		}
	}
	status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(&pod.Spec.Containers[i], begun, true))
	}
	return status
}

// terminated returns the status of a pod whose containers were ended by a signal.
func terminated(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	at := metav1.NewTime(now)
	status.Phase = corev1.PodFailed
	setCondition(&status, corev1.PodReady, corev1.ConditionFalse, "PodFailed", at)
	setCondition(&status, corev1.ContainersReady, corev1.ConditionFalse, "PodFailed", at)
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: sigterm, Reason: "Error", FinishedAt: at}}
	status.ContainerStatuses = nil
	for i := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(&pod.Spec.Containers[i], ended, false))
	}
	return status
}

func containerStatus(c *corev1.Container, state corev1.ContainerState, ready bool) corev1.ContainerStatus {
	started := state.Running != nil
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state, Ready: ready, Started: &started}
}

func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, value corev1.ConditionStatus, reason string, now metav1.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type == kind {
			if c.Status != value {
				c.Status, c.Reason, c.LastTransitionTime = value, reason, now
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: value, Reason: reason, LastTransitionTime: now})
}
