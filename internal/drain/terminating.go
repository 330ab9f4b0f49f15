package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const (
	// longTermination is how much later the grace period of a pod ends that blocks the drain.
	longTermination = time.Hour
	// lateTermination is how long after its grace period a pod blocks the drain.
	lateTermination = 10 * time.Minute
	// shortGrace is the grace period, in seconds, of a pod that is deleted again after the deadline.
	shortGrace = 30
)

// The two ways in which a pod terminates slowly, with what can be done.
const (
	endsLate  = "its grace period ends in more than an hour: delete it again with --grace-period=30, or wait"
	endedLong = "its grace period ended more than 10 minutes ago: look at its node, its finalizers and the drivers of its claims"
)

// terminatesSlowly blocks by a pod that is terminating and keeps its devices for long.
func terminatesSlowly(pod *corev1.Pod, now time.Time) *v1alpha1.DrainBlock {
	block := v1alpha1.DrainBlock{Reason: v1alpha1.BlockedTerminating}
	switch {
	case pod.DeletionTimestamp == nil || finished(pod):
		return nil
	case EndsTooLate(pod, now):
		block.Message = endsLate
	case now.After(pod.DeletionTimestamp.Add(lateTermination)):
		block.Message = endedLong
	default:
		return nil
	}
	return &block
}

// EndsTooLate reports whether a pod is terminating with a grace period that ends later than a drain
// waits. The API server sets deletionTimestamp to the end of the grace period.
func EndsTooLate(pod *corev1.Pod, now time.Time) bool {
	return pod.DeletionTimestamp != nil && !finished(pod) && pod.DeletionTimestamp.After(now.Add(longTermination))
}

// finished reports whether the containers of a pod have ended, so that the claim controller takes its claims.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// shows reports whether a pod shows that its eviction, or its deletion, was accepted.
func shows(pod Pod, in Input, pending v1alpha1.DrainPod) bool {
	again := pending.GracePeriodSeconds != nil && !in.Evicting[pod.UID]
	return leaves(pod, in.Evicting) && !(again && EndsTooLate(pod.Pod, in.Now))
}
