package ownclient

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// RollManager owns the fields that the controller of rolls writes.
const RollManager = "dra-steward-roll"

// A RollClient reads and writes DeviceRolls, and what they need.
type RollClient struct {
	rolls Kind[*v1alpha1.DeviceRoll, *v1alpha1.DeviceRollList]
	core  kubernetes.Interface
	*DrainClient
}

// NewRollClient returns a client.
func NewRollClient(config *rest.Config) (*RollClient, error) {
	client, err := New(config)
	if err != nil {
		return nil, err
	}
	own, err := NewDrainClient(config)
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for rolls: %w", err)
	}
	return &RollClient{Rolls(client), core, own}, nil
}

// Informer is an informer of all rolls; the caller runs it.
func (c *RollClient) Informer() cache.SharedIndexInformer { return c.rolls.Informer() }

// List reads a page of the rolls, or all.
func (c *RollClient) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.DeviceRollList, error) {
	return c.rolls.List(ctx, options)
}

// Watch watches all rolls.
func (c *RollClient) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.rolls.Watch(ctx, options)
}

// GetRoll reads a roll.
func (c *RollClient) GetRoll(ctx context.Context, name string) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.Get(ctx, name, metav1.GetOptions{})
}

// CreateRoll makes a roll; dryRun asks the API server only whether it would.
func (c *RollClient) CreateRoll(ctx context.Context, r *v1alpha1.DeviceRoll, dryRun bool) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.Create(ctx, r, metav1.CreateOptions{DryRun: DryRun(dryRun)})
}

// UpdateRoll writes metadata and spec of a roll, unless it has changed since it was read.
func (c *RollClient) UpdateRoll(ctx context.Context, r *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.Update(ctx, r, metav1.UpdateOptions{})
}

// UpdateRollStatus writes the status of a roll, unless it has changed since it was read.
func (c *RollClient) UpdateRollStatus(ctx context.Context, r *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.UpdateStatus(ctx, r, metav1.UpdateOptions{FieldManager: RollManager})
}

// DeleteRoll deletes a roll, and by that its drains.
func (c *RollClient) DeleteRoll(ctx context.Context, name string) error {
	return c.rolls.Delete(ctx, name, metav1.DeleteOptions{})
}

// DriverPods reads the pods of a driver on a node, and those on all nodes for an empty one.
func (c *RollClient) DriverPods(ctx context.Context, of *v1alpha1.RollDriverPods, node string) ([]corev1.Pod, error) {
	options := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(of.Labels).String()}
	if node != "" {
		options.FieldSelector, options.Limit = "spec.nodeName="+node, 100
	} else {
		options.ResourceVersion = "0" // of the API server's cache: a roll asks every 10 s
	}
	list, err := c.core.CoreV1().Pods(of.Namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// DeletePod deletes a pod, unless another has its name.
func (c *RollClient) DeletePod(ctx context.Context, pod types.NamespacedName, uid types.UID) error {
	return c.core.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
}

// PatchNode cordons a node for a roll, or uncordons it, unless it has changed since it was read.
func (c *RollClient) PatchNode(ctx context.Context, node *corev1.Node, roll string) error {
	var by, unschedulable any
	if roll != "" {
		by, unschedulable = roll, true
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]any{v1alpha1.RollAnnotation: by}},
		"spec":     map[string]any{"unschedulable": unschedulable},
	})
	if err != nil {
		return err
	}
	_, err = c.core.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: RollManager})
	return err
}

// Proof reads the pod of a proof and its claim. Either is nil if it does not exist.
func (c *RollClient) Proof(ctx context.Context, namespace, name string) (*corev1.Pod, *resourceapi.ResourceClaim, error) {
	pod, err := c.core.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err = absent(&pod, err); err != nil {
		return nil, nil, err
	}
	claim, err := c.core.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	return pod, claim, absent(&claim, err)
}

// CreateProof creates the claim of a proof and its pod.
func (c *RollClient) CreateProof(ctx context.Context, pod *corev1.Pod, claim *resourceapi.ResourceClaim) error {
	if _, err := c.core.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{FieldManager: RollManager}); exists(err) != nil {
		return err
	}
	_, err := c.core.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{FieldManager: RollManager})
	return exists(err)
}

// DeleteProof deletes both.
func (c *RollClient) DeleteProof(ctx context.Context, namespace, name string) error {
	if err := gone(c.core.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		return err
	}
	return gone(c.core.ResourceV1().ResourceClaims(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
}

// exists is an error, except that something exists already.
func exists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// gone is an error, except that something does not exist.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// absent makes nil of an object that does not exist.
func absent[T any](object **T, err error) error {
	if err != nil {
		*object = nil
	}
	return gone(err)
}
