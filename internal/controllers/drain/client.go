package drain

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
const FieldManager = "dra-steward-drain"

// A Client reads and writes DeviceDrains.
type Client struct{ client rest.Interface }

// NewClient returns a client.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := ownclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Client{client}, nil
}

// Informer is an informer of all drains; the caller runs it.
func (c *Client) Informer() cache.SharedIndexInformer {
	lw := cache.NewListWatchFromClient(c.client, v1alpha1.DeviceDrainResource, metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformerWithOptions(lw, &v1alpha1.DeviceDrain{}, cache.SharedIndexInformerOptions{ObjectDescription: v1alpha1.DeviceDrainKind})
}

// Get reads a drain.
func (c *Client) Get(ctx context.Context, name string) (*v1alpha1.DeviceDrain, error) {
	d := &v1alpha1.DeviceDrain{}
	return d, c.client.Get().Resource(v1alpha1.DeviceDrainResource).Name(name).Do(ctx).Into(d)
}

// Reaction returns an error if a DeviceReaction cannot be read.
func (c *Client) Reaction(ctx context.Context, name string) error {
	return c.client.Get().Resource(v1alpha1.DeviceReactionResource).Name(name).Do(ctx).Error()
}

// List reads a page of the drains, or all.
func (c *Client) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.DeviceDrainList, error) {
	list := &v1alpha1.DeviceDrainList{}
	return list, c.client.Get().Resource(v1alpha1.DeviceDrainResource).VersionedParams(&options, metav1.ParameterCodec).Do(ctx).Into(list)
}

// Watch watches all drains.
func (c *Client) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return c.client.Get().Resource(v1alpha1.DeviceDrainResource).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
}

// Create makes a drain; dryRun asks the API server only whether it would.
func (c *Client) Create(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	d = d.DeepCopy()
	d.APIVersion, d.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind
	made := &v1alpha1.DeviceDrain{}
	request := c.client.Post().Resource(v1alpha1.DeviceDrainResource).Body(d)
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return made, request.Do(ctx).Into(made)
}

// Update writes metadata and spec of a drain, unless it has changed since it was read; dryRun asks the
// API server only whether it would.
func (c *Client) Update(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	return c.put(ctx, d, "", dryRun)
}

// UpdateStatus writes the status of a drain, unless it has changed since it was read.
func (c *Client) UpdateStatus(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.put(ctx, d, "status", false)
}

func (c *Client) put(ctx context.Context, d *v1alpha1.DeviceDrain, subresource string, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	d = d.DeepCopy()
	d.APIVersion, d.Kind = v1alpha1.GroupVersion().String(), v1alpha1.DeviceDrainKind
	written := &v1alpha1.DeviceDrain{}
	request := c.client.Put().Resource(v1alpha1.DeviceDrainResource).Name(d.Name).Param("fieldManager", FieldManager).Body(d)
	if subresource != "" {
		request = request.SubResource(subresource)
	}
	if dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return written, request.Do(ctx).Into(written)
}

// Delete deletes a drain, which lifts its cordon.
func (c *Client) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.client.Delete().Resource(v1alpha1.DeviceDrainResource).Name(name).Body(&options).Do(ctx).Error()
}
