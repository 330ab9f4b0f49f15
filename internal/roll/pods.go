package roll

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodOf is a pod of a driver on a node.
func PodOf(pod *corev1.Pod, node string) Pod {
	p := Pod{Node: node, UID: pod.UID, Deleting: pod.DeletionTimestamp != nil, Message: whyNotReady(pod)}
	p.Namespace, p.Name = pod.Namespace, pod.Name
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			p.Ready, p.ReadySince = true, c.LastTransitionTime.Time
		}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		p.Restarts += c.RestartCount
	}
	return p
}

// whyNotReady is why a pod is not ready, as far as its status says.
func whyNotReady(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case c.State.Waiting != nil:
			return fmt.Sprintf("container %s waits: %s %s", c.Name, c.State.Waiting.Reason, c.State.Waiting.Message)
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			return fmt.Sprintf("container %s ended with exit code %d: %s %s", c.Name, c.State.Terminated.ExitCode, c.State.Terminated.Reason, c.State.Terminated.Message)
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReadyToStartContainers && c.Status != corev1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return "phase " + string(pod.Status.Phase)
}
