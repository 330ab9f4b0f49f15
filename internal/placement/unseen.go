package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Unseen names what a pod uses and the package does not look at.
func Unseen(pod *corev1.Pod) (all []string) {
	add := func(used bool, what string) {
		if used {
			all = append(all, what)
		}
	}
	add(slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	}), "topology spread constraints")
	add(slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	}), "persistent volumes")
	if a := pod.Spec.Affinity; a != nil {
		add(a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "pod affinity")
		add(a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0, "pod anti-affinity")
	}
	add(ptr.Deref(pod.Spec.Priority, 0) > 0 && (pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever), "preemption of pods with a lower priority")
	add(pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName, "scheduler "+pod.Spec.SchedulerName)
	return all
}
