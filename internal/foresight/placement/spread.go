package placement

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"
)

// A spread is a topology spread constraint with whenUnsatisfiable: DoNotSchedule. The constraints that kube-scheduler has by
// default are ScheduleAnyway: they exclude no node.
type spread struct {
	*corev1.TopologySpreadConstraint
	selector labels.Selector
	// domains are the pods of each value of the key, least the fewest of them, own is 1 if the pod counts itself.
	domains    map[string]int
	least, own int
}

// spreadsOf counts the pods that the constraints of a pod are about.
func (s *Simulation) spreadsOf(pod *corev1.Pod) (all []spread, _ error) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(withKeys(c.LabelSelector, pod.Labels, c.MatchLabelKeys, nil))
		if err != nil {
			return nil, err
		}
		one := spread{TopologySpreadConstraint: c, selector: selector, domains: map[string]int{}}
		if selector.Matches(labels.Set(pod.Labels)) {
			one.own = 1
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, nil
	}
	s.count(all, pod)
	for i := range all {
		all[i].minimum()
	}
	return all, nil
}

// count counts the pods on the nodes that take part.
func (s *Simulation) count(all []spread, pod *corev1.Pod) {
	takesPart := make([][]bool, len(s.nodes))
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	for i, n := range s.nodes {
		if !hasKeys(n, all) {
			continue
		}
		takesPart[i] = make([]bool, len(all))
		matches, err := affinity.Match(n.Node)
		for j := range all {
			if takesPart[i][j] = all[j].includes(n, pod, err == nil && matches); takesPart[i][j] {
				all[j].domains[n.Labels[all[j].TopologyKey]] += 0
			}
		}
	}
	namespace := nameOf(pod).Namespace
	for _, other := range s.pods {
		i, known := s.byName[other.Spec.NodeName]
		if !known || takesPart[i] == nil || other.DeletionTimestamp != nil || nameOf(other).Namespace != namespace {
			continue
		}
		for j := range all {
			// kube-scheduler counts no pods of a selector that selects all.
			if takesPart[i][j] && !all[j].selector.Empty() && all[j].selector.Matches(labels.Set(other.Labels)) {
				all[j].domains[s.nodes[i].Labels[all[j].TopologyKey]]++
			}
		}
	}
}

func hasKeys(n *node, all []spread) bool {
	for i := range all {
		if _, has := n.Labels[all[i].TopologyKey]; !has {
			return false
		}
	}
	return true
}

// includes reports whether a node counts for a constraint.
func (c *spread) includes(n *node, pod *corev1.Pod, matches bool) bool {
	if ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor && !matches {
		return false
	}
	if ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyIgnore {
		return true
	}
	_, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(logr.Discard(), n.Spec.Taints, pod.Spec.Tolerations, excludes, true)
	return !untolerated
}

// excludes reports whether a taint keeps pods from a node.
func excludes(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }

func (c *spread) minimum() {
	if len(c.domains) == 0 || len(c.domains) < int(ptr.Deref(c.MinDomains, 1)) {
		return
	}
	first := true
	for _, n := range c.domains {
		if first || n < c.least {
			c.least, first = n, false
		}
	}
}

// against returns why a pod does not run on a node.
func (c *spread) against(n *node) (Kind, string) {
	value, has := n.Labels[c.TopologyKey]
	if !has {
		return TopologySpread, "has no label " + c.TopologyKey + ", which a topology spread constraint names"
	}
	if c.domains[value]+c.own-c.least > int(c.MaxSkew) {
		return TopologySpread, fmt.Sprintf("has %d pods of the topology spread constraint in %s=%s, where the fewest are %d and maxSkew is %d",
			c.domains[value], c.TopologyKey, value, c.least, c.MaxSkew)
	}
	return "", ""
}
