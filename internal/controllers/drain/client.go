package drain

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/ownclient"
)

// FieldManager owns the fields that the controller writes.
const FieldManager = "dra-steward-drain"

// A Client reads and writes DeviceDrains.
type Client struct {
	client rest.Interface
	ownclient.Kind[*v1alpha1.DeviceDrain, *v1alpha1.DeviceDrainList]
}

// NewClient returns a client.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := ownclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Client{client, ownclient.Drains(client)}, nil
}

// Get reads a drain.
func (c *Client) Get(ctx context.Context, name string) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.Get(ctx, name, metav1.GetOptions{})
}

// Reaction returns an error if a DeviceReaction cannot be read.
func (c *Client) Reaction(ctx context.Context, name string) error {
	return c.client.Get().Resource(v1alpha1.DeviceReactionResource).Name(name).Do(ctx).Error()
}

// Create makes a drain; dryRun asks the API server only whether it would.
func (c *Client) Create(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.Create(ctx, d, metav1.CreateOptions{DryRun: ownclient.DryRun(dryRun)})
}

// Update writes metadata and spec of a drain, unless it has changed since it was read; dryRun asks the
// API server only whether it would.
func (c *Client) Update(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.Update(ctx, d, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: ownclient.DryRun(dryRun)})
}

// UpdateStatus writes the status of a drain, unless it has changed since it was read.
func (c *Client) UpdateStatus(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.UpdateStatus(ctx, d, metav1.UpdateOptions{FieldManager: FieldManager})
}

// Delete deletes a drain, which lifts its cordon.
func (c *Client) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.Kind.Delete(ctx, name, options)
}
