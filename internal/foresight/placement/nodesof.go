package placement

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodesOf makes the nodes that slices name, for a Cluster in which none could be read.
func NodesOf(all []*resourceapi.ResourceSlice) []*corev1.Node {
	nodes := map[string]*corev1.Node{}
	add := func(name *string, everywhere *bool, selector *corev1.NodeSelector) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
		switch {
		case name != nil && *name != "":
			node.Name = *name
		case selector != nil:
			node = selectedBy(selector)
		case everywhere == nil || !*everywhere:
			return
		default:
			node.Name = "any"
		}
		if node.Name != "" && nodes[node.Name] == nil {
			nodes[node.Name] = node
		}
	}
	for _, s := range all {
		add(s.Spec.NodeName, s.Spec.AllNodes, s.Spec.NodeSelector)
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			add(d.NodeName, d.AllNodes, d.NodeSelector)
		}
	}
	if len(nodes) > 1 {
		delete(nodes, "any") // what is on all nodes is on these
	}
	var result []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		result = append(result, nodes[name])
	}
	return result
}

// selectedBy makes a node that the first term of a selector selects, with the labels that
// the term has values for.
func selectedBy(selector *corev1.NodeSelector) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for _, term := range selector.NodeSelectorTerms[:min(1, len(selector.NodeSelectorTerms))] {
		for _, r := range term.MatchFields {
			if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 {
				node.Name = r.Values[0]
			}
		}
		for _, r := range term.MatchExpressions {
			if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0 {
				node.Labels[r.Key] = r.Values[0]
			} else if r.Operator == corev1.NodeSelectorOpExists {
				node.Labels[r.Key] = ""
			}
		}
	}
	if node.Name == "" && len(node.Labels) > 0 {
		node.Name = "node with " + labelText(node.Labels)
	}
	return node
}

func labelText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}
