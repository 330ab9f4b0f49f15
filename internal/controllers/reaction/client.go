package reaction

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/ownclient"
)

// FieldManager owns the fields that the controller writes.
const FieldManager = "dra-steward-reaction"

// A Client reads and writes DeviceReactions.
type Client struct{ client rest.Interface }

// NewClient returns a client.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := ownclient.New(config)
	return &Client{client}, err
}

// Informer is an informer of all reactions; the caller runs it.
func (c *Client) Informer() cache.SharedIndexInformer {
	lw := cache.NewListWatchFromClient(c.client, v1alpha1.DeviceReactionResource, metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformerWithOptions(lw, &v1alpha1.DeviceReaction{}, cache.SharedIndexInformerOptions{ObjectDescription: v1alpha1.DeviceReactionKind})
}

// List reads a page of the reactions, or all.
func (c *Client) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.DeviceReactionList, error) {
	list := &v1alpha1.DeviceReactionList{}
	return list, c.client.Get().Resource(v1alpha1.DeviceReactionResource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
}

// Watch watches all reactions.
func (c *Client) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return c.client.Get().Resource(v1alpha1.DeviceReactionResource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

// UpdateStatus writes the status of a reaction, unless it has changed since it was read.
func (c *Client) UpdateStatus(ctx context.Context, r *v1alpha1.DeviceReaction) (*v1alpha1.DeviceReaction, error) {
	r = r.DeepCopy()
	r.APIVersion, r.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceReactionKind
	written := &v1alpha1.DeviceReaction{}
	return written, c.client.Put().Resource(v1alpha1.DeviceReactionResource).Name(r.Name).SubResource("status").Param("fieldManager", FieldManager).Body(r).Do(ctx).Into(written)
}

// CreateDrain makes a drain.
func (c *Client) CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	made := &v1alpha1.DeviceDrain{}
	return made, c.client.Post().Resource(v1alpha1.DeviceDrainResource).Param("fieldManager", FieldManager).Body(typed(d)).Do(ctx).Into(made)
}

// UpdateDrain writes metadata and spec of a drain, unless it has changed since it was read.
func (c *Client) UpdateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	written := &v1alpha1.DeviceDrain{}
	return written, c.client.Put().Resource(v1alpha1.DeviceDrainResource).Name(d.Name).Param("fieldManager", FieldManager).Body(typed(d)).Do(ctx).Into(written)
}

// DeleteDrain deletes a drain, unless another has its name.
func (c *Client) DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain) error {
	return c.client.Delete().Resource(v1alpha1.DeviceDrainResource).Name(d.Name).Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.UID))}).Do(ctx).Error()
}

// typed is a drain with its kind.
func typed(d *v1alpha1.DeviceDrain) *v1alpha1.DeviceDrain {
	d = d.DeepCopy()
	d.APIVersion, d.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind
	return d
}
