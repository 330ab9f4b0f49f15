package reaction

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/ownclient"
)

// FieldManager owns the fields that the controller writes.
const FieldManager = "dra-steward-reaction"

// A Client reads and writes DeviceReactions, and their drains.
type Client struct {
	reactions ownclient.Kind[*v1alpha1.DeviceReaction, *v1alpha1.DeviceReactionList]
	drains    ownclient.Kind[*v1alpha1.DeviceDrain, *v1alpha1.DeviceDrainList]
}

// NewClient returns a client.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := ownclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Client{ownclient.Reactions(client), ownclient.Drains(client)}, nil
}

// Informer is an informer of all reactions; the caller runs it.
func (c *Client) Informer() cache.SharedIndexInformer { return c.reactions.Informer() }

// List reads a page of the reactions, or all.
func (c *Client) List(ctx context.Context, options metav1.ListOptions) (*v1alpha1.DeviceReactionList, error) {
	return c.reactions.List(ctx, options)
}

// Watch watches all reactions.
func (c *Client) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.reactions.Watch(ctx, options)
}

// UpdateStatus writes the status of a reaction, unless it has changed since it was read.
func (c *Client) UpdateStatus(ctx context.Context, r *v1alpha1.DeviceReaction) (*v1alpha1.DeviceReaction, error) {
	return c.reactions.UpdateStatus(ctx, r, metav1.UpdateOptions{FieldManager: FieldManager})
}

// CreateDrain makes a drain.
func (c *Client) CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.drains.Create(ctx, d, metav1.CreateOptions{FieldManager: FieldManager})
}

// UpdateDrain writes metadata and spec of a drain, unless it has changed since it was read.
func (c *Client) UpdateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.drains.Update(ctx, d, metav1.UpdateOptions{FieldManager: FieldManager})
}

// DeleteDrain deletes a drain, unless another has its name.
func (c *Client) DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain) error {
	return c.drains.Delete(ctx, d.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.UID))})
}
