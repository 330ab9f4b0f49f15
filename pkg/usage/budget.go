package usage

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Budgets returns the PodDisruptionBudgets that speak of a pod, in the order of their
// names.
func (i *Index) Budgets(pod *corev1.Pod) (all []*policyv1.PodDisruptionBudget) {
	i.mutex.RLock()
	defer i.mutex.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(i.budgets[pod.Namespace])) {
		if budget := i.budgets[pod.Namespace][name]; speaksOf(budget, []*corev1.Pod{pod}) > 0 {
			all = append(all, budget)
		}
	}
	return all
}
