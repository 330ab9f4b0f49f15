package reaction

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// NodeConditions is an informer of nodes with their names and conditions only; the caller runs
// it.
func NodeConditions(client kubernetes.Interface) cache.SharedIndexInformer {
	nodes := coreinformers.NewNodeInformer(client, 0, cache.Indexers{})
	_ = nodes.SetTransform(keepConditions) // it fails for an informer that runs
	return nodes
}

// mostMessage is how many bytes of the message of a condition are kept.
const mostMessage = 1024

// keepConditions drops the times of conditions, too: they change with each heartbeat.
func keepConditions(object any) (any, error) {
	node, is := object.(*corev1.Node)
	if !is {
		return object, nil
	}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion}}
	for _, c := range node.Status.Conditions {
		kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: strings.Clone(bounded(c.Message, mostMessage))})
	}
	return kept, nil
}

// sameConditions reports whether an update of a node changed no condition.
func sameConditions(old, object any) bool {
	a, is := old.(*corev1.Node)
	b, also := object.(*corev1.Node)
	return is && also && slices.Equal(a.Status.Conditions, b.Status.Conditions)
}
