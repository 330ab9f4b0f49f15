package compact

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The bounds of what is kept of one pod or claim that a tenant writes: labels and their bytes, the bytes of an
// owner, and the claims of a pod that does not run.
const (
	maxLabels, maxLabelBytes = 256, 16 << 10
	maxOwnerBytes            = 1 << 10
	maxClaims                = 256
)

// Labels returns the labels of a pod, nil beyond the bounds: a tenant can write 1.4 MB of them, which take 5 MB of
// memory. No PodDisruptionBudget is then known to select the pod; the Eviction API reads the stored labels and
// decides.
func Labels(all map[string]string) map[string]string {
	bytes := 0
	for key, value := range all {
		bytes += len(key) + len(value)
	}
	if len(all) > maxLabels || bytes > maxLabelBytes {
		return nil
	}
	return all
}

// Owner returns the controller of an object: the other owners have no reader. It returns nil if the reference is
// longer than any valid one.
func Owner(m *metav1.ObjectMeta) []metav1.OwnerReference {
	o := metav1.GetControllerOf(m)
	if o == nil || len(o.APIVersion)+len(o.Kind)+len(o.Name)+len(o.UID) > maxOwnerBytes {
		return nil
	}
	return []metav1.OwnerReference{*o}
}

// Claims returns the claims that a pod names. Beyond the bound, it returns nil for a pod that does not run: that
// pod holds no device. A running pod keeps all, so that no claim hides its pod from an eviction; its node bounds
// their number.
func Claims(pod *corev1.Pod) []corev1.PodResourceClaim {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if len(pod.Spec.ResourceClaims) > maxClaims && (pod.Spec.NodeName == "" || ended) {
		return nil
	}
	return pod.Spec.ResourceClaims
}
