package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// rest is what decides about a pod apart from each node by itself, and from devices.
type rest struct {
	affinity affinity
	spreads  []spread
	volumes  []*corev1.PersistentVolume
	// near is true if other pods, or volumes, decide.
	near    bool
	unknown []string
}

// restOf finds it; a reason is about all nodes.
func (s *Simulation) restOf(pod *corev1.Pod) (r rest, _ Reason) {
	var err error
	var blind bool
	if r.affinity, blind, err = s.affinityOf(pod); err != nil {
		return r, Reason{Kind: PodAffinity, Message: "the pod's affinity cannot be read: " + err.Error()}
	}
	if blind {
		r.unknown = append(r.unknown, "pod affinity by the labels of namespaces, which were not read")
	}
	if r.spreads, err = s.spreadsOf(pod); err != nil {
		return r, Reason{Kind: TopologySpread, Message: "a topology spread constraint cannot be read: " + err.Error()}
	}
	var reason Reason
	var unknown []string
	r.volumes, reason, unknown = s.volumesOf(pod)
	r.unknown = append(r.unknown, unknown...)
	r.near = len(s.anti) > 0 || len(r.spreads) > 0 || len(r.volumes) > 0 || len(r.affinity.terms) > 0 || len(antiTerms(pod)) > 0
	return r, reason
}

// volatile reports whether a pod that is placed can make a node suitable.
func (r *rest) volatile() bool { return len(r.spreads)+len(r.affinity.terms) > 0 }

// against returns why a pod does not run on a node.
func (r *rest) against(n *node) (Kind, string) {
	for _, v := range r.volumes {
		if kind, message := elsewhere(v, n); kind != "" {
			return kind, message
		}
	}
	for i := range r.spreads {
		if kind, message := r.spreads[i].against(n); kind != "" {
			return kind, message
		}
	}
	return r.affinity.against(n)
}

// setAnti keeps the pods on nodes that have a required anti-affinity.
func (s *Simulation) setAnti(pod *corev1.Pod, sign int64) {
	switch {
	case len(antiTerms(pod)) == 0:
	case sign > 0:
		s.anti[uidOf(pod)] = pod
	default:
		delete(s.anti, uidOf(pod))
	}
}

// unknown names what decides about a result and was not checked. What excludes a node for certain needs no more.
func (s *Simulation) unknown(r *Result, needs *needs) []string {
	all := elseKnows(r.Pod, r.Reason)
	if r.Lands() || r.Reason.Nodes[PodAffinity] > 0 {
		all = append(all, needs.rest.unknown...)
	}
	if !r.Lands() && s.preempts(r) {
		all = append(all, "preemption of pods with a lower priority")
	}
	return slices.Compact(all)
}

// elseKnows names what decides in place of this package: another scheduler, or the time that kube-scheduler has.
func elseKnows(pod *corev1.Pod, reason Reason) (all []string) {
	if name := pod.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		all = append(all, "scheduler "+name)
	}
	switch reason.Kind {
	case Slow:
		all = append(all, "the search for devices, which takes too long")
	case TooLarge:
		all = append(all, "an object that is larger than is read")
	}
	return all
}

// preempts reports whether the pod may take the place of others: where what they leave can decide. Devices of claims
// stay allocated.
func (s *Simulation) preempts(r *Result) bool {
	leaves := []Kind{NodePorts, Resources, TopologySpread, PodAntiAffinity}
	if ptr.Deref(r.Pod.Spec.PreemptionPolicy, "") == corev1.PreemptNever || !slices.ContainsFunc(leaves, func(kind Kind) bool { return r.Reason.Nodes[kind] > 0 }) {
		return false
	}
	for _, other := range s.pods {
		if _, known := s.byName[other.Spec.NodeName]; known && priorityOf(other) < priorityOf(r.Pod) {
			return true
		}
	}
	return false
}

func priorityOf(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }
