package roll

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/ownclient"
)

// FieldManager owns the fields that the controller writes.
const FieldManager = "dra-steward-roll"

// A Client reads and writes DeviceRolls, and what they need.
type Client struct {
	rolls ownclient.Kind[*v1alpha1.DeviceRoll, *v1alpha1.DeviceRollList]
	core  kubernetes.Interface
	*drains
}

type drains = ownclient.DrainClient

// NewClient returns a client.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := ownclient.New(config)
	if err != nil {
		return nil, err
	}
	own, err := ownclient.NewDrainClient(config)
	if err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for rolls: %w", err)
	}
	return &Client{ownclient.Rolls(client), core, own}, nil
}

// Informer is an informer of all rolls; the caller runs it.
func (c *Client) Informer() cache.SharedIndexInformer { return c.rolls.Informer() }

// List reads a page of the rolls, or all.
func (c *Client) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.DeviceRollList, error) {
	return c.rolls.List(ctx, options)
}

// Watch watches all rolls.
func (c *Client) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.rolls.Watch(ctx, options)
}

// GetRoll reads a roll.
func (c *Client) GetRoll(ctx context.Context, name string) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.Get(ctx, name, metav1.GetOptions{})
}

// CreateRoll makes a roll; dryRun asks the API server only whether it would.
func (c *Client) CreateRoll(ctx context.Context, r *v1alpha1.DeviceRoll, dryRun bool) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.Create(ctx, r, metav1.CreateOptions{DryRun: ownclient.DryRun(dryRun)})
}

// UpdateRoll writes metadata and spec of a roll, unless it has changed since it was read.
func (c *Client) UpdateRoll(ctx context.Context, r *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.Update(ctx, r, metav1.UpdateOptions{})
}

// UpdateRollStatus writes the status of a roll, unless it has changed since it was read.
func (c *Client) UpdateRollStatus(ctx context.Context, r *v1alpha1.DeviceRoll) (*v1alpha1.DeviceRoll, error) {
	return c.rolls.UpdateStatus(ctx, r, metav1.UpdateOptions{FieldManager: FieldManager})
}

// DeleteRoll deletes a roll, and by that its drains.
func (c *Client) DeleteRoll(ctx context.Context, name string) error {
	return c.rolls.Delete(ctx, name, metav1.DeleteOptions{})
}

// DriverPods reads the pods of a driver on a node.
func (c *Client) DriverPods(ctx context.Context, of *v1alpha1.RollDriverPods, node string) ([]corev1.Pod, error) {
	list, err := c.core.CoreV1().Pods(of.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(of.Labels).String(), FieldSelector: "spec.nodeName=" + node, Limit: 100,
	})
	return list.Items, err
}

// DeletePod deletes a pod, unless another has its name.
func (c *Client) DeletePod(ctx context.Context, pod types.NamespacedName, uid types.UID) error {
	return c.core.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))})
}

// PatchNode cordons a node for a roll, or uncordons it, unless it has changed since it was read.
func (c *Client) PatchNode(ctx context.Context, node *corev1.Node, roll string) error {
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
	_, err = c.core.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// Proof reads the pod of a proof and its claim. Either is nil if it does not exist.
func (c *Client) Proof(ctx context.Context, namespace, name string) (*corev1.Pod, *resourceapi.ResourceClaim, error) {
	pod, err := c.core.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err = absent(&pod, err); err != nil {
		return nil, nil, err
	}
	claim, err := c.core.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	return pod, claim, absent(&claim, err)
}

// CreateProof creates the claim of a proof and its pod.
func (c *Client) CreateProof(ctx context.Context, pod *corev1.Pod, claim *resourceapi.ResourceClaim) error {
	if _, err := c.core.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{FieldManager: FieldManager}); exists(err) != nil {
		return err
	}
	_, err := c.core.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{FieldManager: FieldManager})
	return exists(err)
}

// DeleteProof deletes both.
func (c *Client) DeleteProof(ctx context.Context, namespace, name string) error {
	if err := gone(c.core.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		return err
	}
	return gone(c.core.ResourceV1().ResourceClaims(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
}
