package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// candidates finds the nodes where the pod may run: by its node name, its node selector and
// affinity, and by the other claims that have their devices already.
func (q *question) candidates() (err error) {
	if q.pod != nil {
		for _, other := range q.cluster.Claims {
			if other.Namespace == q.pod.Namespace && other.Name != q.claim.Name && other.Status.Allocation == nil && uses(q.pod, other) {
				q.others = append(q.others, placement.Defaulted(other))
			}
		}
	}
	q.nodes, err = q.runsOn(q.pod)
	q.byName = make(map[string]*corev1.Node, len(q.nodes))
	for _, node := range q.nodes {
		q.byName[node.Name] = node
	}
	q.where = q.mayRun()
	return err
}

// runsOn returns the nodes where a pod may run.
func (q *question) runsOn(pod *corev1.Pod) (nodes []*corev1.Node, _ error) {
	all := q.cluster.Nodes
	if len(all) == 0 {
		all = placement.NodesOf(q.slices)
	}
	if pod == nil {
		return all, nil
	}
	affinity, bound := nodeaffinity.GetRequiredNodeAffinity(pod), q.boundTo(pod)
	for _, node := range all {
		if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
			continue
		}
		ok, err := affinity.Match(node)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: spec.affinity.nodeAffinity: %w", pod.Namespace, pod.Name, err)
		}
		if ok && !slices.ContainsFunc(bound, func(selector *corev1.NodeSelector) bool { return !placement.Matches(node, nil, nil, selector) }) {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// boundTo are the node selectors of the pod's claims that are allocated: the pod can run only
// where they match.
func (q *question) boundTo(pod *corev1.Pod) (all []*corev1.NodeSelector) {
	for _, claim := range q.cluster.Claims {
		if claim.Namespace == pod.Namespace && claim.Status.Allocation != nil && claim.Status.Allocation.NodeSelector != nil && uses(pod, claim) {
			all = append(all, claim.Status.Allocation.NodeSelector)
		}
	}
	return all
}

// uses reports whether a pod names a claim.
func uses(pod *corev1.Pod, claim *resourceapi.ResourceClaim) bool {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil && *name == claim.Name {
			return true
		}
	}
	return false
}

// mayRun returns the nodes where the pod may run, in words.
func (q *question) mayRun() string {
	names := make([]string, 0, len(q.nodes))
	for _, node := range q.nodes {
		names = append(names, node.Name)
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return "the pod cannot run on any node"
	case len(names) > 5:
		return fmt.Sprintf("and the pod can run on %d other nodes only", len(names))
	default:
		return "the pod can run on " + strings.Join(names, ", ")
	}
}

func labelText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}
