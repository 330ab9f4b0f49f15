package manager

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
)

// keepPods is what is kept of pods.
func (o Options) keepPods() cache.TransformFunc {
	keep := stripPod
	if o.drainForesight {
		keep = keepPod
	}
	if o.reactions {
		keep = health.Keep(keep)
	}
	return keep
}

// keepClaims is what is kept of claims.
func (o Options) keepClaims() cache.TransformFunc {
	keep := keepClaim
	if o.drainForesight || o.capacityMetrics {
		keep = placement.Keep
	}
	if o.reactions {
		keep = health.Keep(keep)
	}
	return keep
}

// keepClaim keeps what controllers read of a claim if none of them asks where pods land. Rules and policies read the
// claim of extended resources as it is.
func keepClaim(object any) (any, error) {
	object, err := placement.Keep(object)
	claim, is := object.(*resourceapi.ResourceClaim)
	if is && claim.Status.Allocation != nil && claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "" {
		allocation := *claim.Status.Allocation
		allocation.NodeSelector = nil
		claim.Status.Allocation = &allocation
	}
	return object, err
}

// keepPod keeps what the evictor and foresight read of a pod.
func keepPod(object any) (any, error) {
	stripped, err := stripPod(object)
	pod, is := stripped.(*corev1.Pod)
	if err != nil || !is {
		return stripped, err
	}
	object, err = placement.Keep(object)
	if kept, is := object.(*corev1.Pod); is {
		kept.CreationTimestamp, kept.Status.Conditions = pod.CreationTimestamp, pod.Status.Conditions
	}
	return object, err
}

// nodes is the one informer of nodes.
func (e *eviction) nodes() (cache.SharedIndexInformer, error) {
	nodes := e.informers.Core().V1().Nodes().Informer()
	return nodes, nodes.SetTransform(e.options.keepNode)
}

// keepNode keeps what foresight, the metrics of capacity, reactions and rolls read of a node.
func (o Options) keepNode(object any) (any, error) {
	keep := placement.Keep
	if o.reactions {
		keep = health.Keep(keep)
	}
	node, is := object.(*corev1.Node)
	object, err := keep(object)
	kept, also := object.(*corev1.Node)
	if !is || !also {
		return object, err
	}
	if o.rolls {
		kept.Annotations = node.Annotations
	}
	if kept.Status.Conditions == nil {
		for _, c := range node.Status.Conditions {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	return kept, err
}

// withoutManagedFields saves the memory of fields without a reader.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}
