package usage

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A budget is a PodDisruptionBudget with its selector, which is compiled once.
type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

func newBudget(b *policyv1.PodDisruptionBudget) budget {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil { // the API server does not store one like that
		selector = labels.Nothing()
	}
	return budget{b, selector}
}

func (b budget) selects(pod *corev1.Pod) bool { return b.selector.Matches(labels.Set(pod.Labels)) }

// Bounds of the selector of a PodDisruptionBudget: its labels and values, and their bytes.
const (
	maxSelectorTerms = 256
	maxSelectorBytes = 16 << 10
)

// trimBudget keeps what decides about evictions. A selector beyond the bounds becomes one that selects
// all pods of the namespace: a tenant can write 1.4 MB of them, which take 11 MB of memory and milliseconds
// for each pod. The Eviction API has the selector as it is stored, and decides.
func trimBudget(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	kept := &policyv1.PodDisruptionBudget{ObjectMeta: trimMeta(b.ObjectMeta)}
	kept.Spec.Selector, kept.Spec.UnhealthyPodEvictionPolicy = b.Spec.Selector, b.Spec.UnhealthyPodEvictionPolicy
	kept.OwnerReferences, kept.Generation = nil, b.Generation
	if large(kept.Spec.Selector) {
		kept.Spec.Selector = &metav1.LabelSelector{}
	}
	kept.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Status.ObservedGeneration, DisruptionsAllowed: b.Status.DisruptionsAllowed,
		CurrentHealthy: b.Status.CurrentHealthy, DesiredHealthy: b.Status.DesiredHealthy}
	return kept
}

func large(selector *metav1.LabelSelector) bool {
	if selector == nil {
		return false
	}
	terms, bytes := len(selector.MatchLabels)+len(selector.MatchExpressions), 0
	for key, value := range selector.MatchLabels {
		bytes += len(key) + len(value)
	}
	for _, expression := range selector.MatchExpressions {
		terms, bytes = terms+len(expression.Values), bytes+len(expression.Key)
		for _, value := range expression.Values[:min(len(expression.Values), maxSelectorTerms)] {
			bytes += len(value)
		}
	}
	return terms > maxSelectorTerms || bytes > maxSelectorBytes
}
