package nodes

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// leaseHeartbeats is how many heartbeats a lease survives.
const leaseHeartbeats = 4

// heart keeps Nodes and their Leases as a kubelet does. A node that a user
// deletes stays deleted.
type heart struct {
	options Options
	client  kubernetes.Interface
	kubelet string // version
}

// create makes a node Ready, with a lease.
func (h heart) create(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: h.labels(name)}}
	_, err := h.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return h.keep(ctx, name)
}

// beat renews all nodes.
func (h heart) beat(ctx context.Context) {
	for _, name := range h.options.Names {
		err := h.keep(ctx, name)
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Node heartbeat failed", "node", name)
		}
	}
}

// keep renews the lease of a node, and makes it Ready where it is not.
func (h heart) keep(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := h.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := h.renewLease(ctx, node); err != nil {
			return err
		}
		if !ready(node) {
			if err := h.patchStatus(ctx, node); err != nil {
				return err
			}
		}
		return h.untaint(ctx, node)
	})
}

func (h heart) labels(name string) map[string]string {
	labels := map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	maps.Copy(labels, h.options.Labels)
	return labels
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func (h heart) patchStatus(ctx context.Context, node *corev1.Node) error {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"capacity":    h.options.Capacity,
		"allocatable": h.options.Capacity,
		"conditions": []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
		},
		"addresses": []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP}, {Type: corev1.NodeHostName, Address: node.Name}},
		"nodeInfo":  map[string]string{"kubeletVersion": h.kubelet, "operatingSystem": "linux", "architecture": "amd64"},
	}})
	if err != nil {
		return err
	}
	_, err = h.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// untaint removes the taints that say that a node is not ready. With a
// controller-manager that would be its node lifecycle controller's work.
func (h heart) untaint(ctx context.Context, node *corev1.Node) error {
	if !slices.ContainsFunc(node.Spec.Taints, saysNotReady) {
		return nil
	}
	node, err := h.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, saysNotReady)
	_, err = h.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	return err
}

func saysNotReady(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}

func (h heart) renewLease(ctx context.Context, node *corev1.Node) error {
	leases := h.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, h.newLease(node, now), metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func (h heart) newLease(node *corev1.Node, now metav1.MicroTime) *coordinationv1.Lease {
	duration := int32(max(leaseHeartbeats*h.options.Heartbeat, leaseHeartbeats*time.Second) / time.Second)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: &duration, RenewTime: &now},
	}
}
