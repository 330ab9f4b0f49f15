package placement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// A topology is a value of a label of nodes.
type topology struct{ key, value string }

// A term is one of the required pod affinity, or anti-affinity.
type term struct {
	key        string
	namespaces sets.Set[string]
	// of selects namespaces by their labels, pods the pods in them.
	of, pods labels.Selector
}

// termsOf returns the terms of a pod. The API server writes matchLabelKeys into the selector; a manifest does not have them there.
func termsOf(pod *corev1.Pod, all []corev1.PodAffinityTerm) (terms []term, _ error) {
	for _, t := range all {
		pods, err := metav1.LabelSelectorAsSelector(withKeys(t.LabelSelector, pod.Labels, t.MatchLabelKeys, t.MismatchLabelKeys))
		if err != nil {
			return nil, err
		}
		of, err := metav1.LabelSelectorAsSelector(t.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		namespaces := sets.New(t.Namespaces...)
		if len(namespaces) == 0 && t.NamespaceSelector == nil {
			namespaces.Insert(nameOf(pod).Namespace)
		}
		terms = append(terms, term{t.TopologyKey, namespaces, of, pods})
	}
	return terms, nil
}

// withKeys adds labels of the pod itself to a selector.
func withKeys(selector *metav1.LabelSelector, own map[string]string, same, other []string) *metav1.LabelSelector {
	if selector == nil || len(same)+len(other) == 0 {
		return selector
	}
	merged := selector.DeepCopy()
	add := func(keys []string, operator metav1.LabelSelectorOperator) {
		for _, key := range keys {
			if value, has := own[key]; has {
				merged.MatchExpressions = append(merged.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
			}
		}
	}
	add(same, metav1.LabelSelectorOpIn)
	add(other, metav1.LabelSelectorOpNotIn)
	return merged
}

// antiTerms and togetherTerms are the required terms of a pod.
func antiTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func togetherTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// affinity is what pods that run, and the pod itself, ask of the nodes for the pod.
type affinity struct {
	// excluded are where the anti-affinity of pods that run excludes the pod, apart where its own does.
	excluded, apart map[topology]bool
	// together are where a pod runs that matches all terms.
	together map[topology]bool
	terms    []term
	// first is true if the pod is the first that matches its own terms.
	first bool
}

// affinityOf finds the affinity of a pod. blind is true if the labels of namespaces decide, and were not read.
func (s *Simulation) affinityOf(pod *corev1.Pod) (a affinity, blind bool, err error) {
	a = affinity{excluded: map[topology]bool{}, apart: map[topology]bool{}, together: map[topology]bool{}}
	for _, other := range s.anti {
		terms, err := termsOf(other, antiTerms(other))
		if err != nil {
			continue // kube-scheduler does not know such a pod
		}
		blind = s.matching(terms, pod, func(t term) { a.mark(s, a.excluded, other, t) }) || blind
	}
	if a.terms, err = termsOf(pod, togetherTerms(pod)); err != nil {
		return a, blind, err
	}
	apart, err := termsOf(pod, antiTerms(pod))
	if err != nil || len(apart)+len(a.terms) == 0 {
		return a, blind, err
	}
	for _, other := range s.pods {
		if other.Spec.NodeName == "" {
			continue
		}
		blind = s.matching(apart, other, func(t term) { a.mark(s, a.apart, other, t) }) || blind
		all, unread := s.matchesAll(a.terms, other)
		if blind = blind || unread; all {
			for _, t := range a.terms {
				a.mark(s, a.together, other, t)
			}
		}
	}
	own, unread := s.matchesAll(a.terms, pod)
	a.first = own && len(a.together) == 0
	return a, blind || unread, nil
}

// mark adds the topology of the node of a pod.
func (a *affinity) mark(s *Simulation, to map[topology]bool, pod *corev1.Pod, t term) {
	if i, known := s.byName[pod.Spec.NodeName]; known {
		if value, has := s.nodes[i].Labels[t.key]; has {
			to[topology{t.key, value}] = true
		}
	}
}

// matching calls match for the terms that match a pod.
func (s *Simulation) matching(terms []term, pod *corev1.Pod, match func(term)) (blind bool) {
	for _, t := range terms {
		is, unread := s.matches(t, pod)
		if blind = blind || unread; is {
			match(t)
		}
	}
	return blind
}

func (s *Simulation) matchesAll(terms []term, pod *corev1.Pod) (all, blind bool) {
	all = len(terms) > 0
	for _, t := range terms {
		is, unread := s.matches(t, pod)
		all, blind = all && (is || unread), blind || unread
	}
	return all && !blind, all && blind
}

// matches reports whether a term matches a pod; blind is true if the labels of its namespace decide, and were not read.
func (s *Simulation) matches(t term, pod *corev1.Pod) (is, blind bool) {
	if !t.pods.Matches(labels.Set(pod.Labels)) {
		return false, false
	}
	namespace := nameOf(pod).Namespace
	if t.namespaces.Has(namespace) || t.of.Empty() {
		return true, false
	}
	if s.namespaces == nil {
		_, selects := t.of.Requirements()
		return false, selects
	}
	return t.of.Matches(s.namespaces[namespace]), false
}

// against returns why a pod does not run on a node.
func (a *affinity) against(n *node) (Kind, string) {
	if len(a.excluded)+len(a.apart) > 0 {
		for key, value := range n.Labels {
			if a.excluded[topology{key, value}] {
				return PodAntiAffinity, "is near a pod whose anti-affinity excludes the pod"
			}
		}
		for key, value := range n.Labels {
			if a.apart[topology{key, value}] {
				return PodAntiAffinity, "is near a pod that the pod's anti-affinity excludes"
			}
		}
	}
	for _, t := range a.terms {
		value, has := n.Labels[t.key]
		switch {
		case !has:
			return PodAffinity, "has no label " + t.key + ", which the pod's affinity names"
		case !a.together[topology{t.key, value}] && !a.first:
			return PodAffinity, "is near no pod (by " + t.key + ") that the pod's affinity asks for"
		}
	}
	return "", ""
}
