package reaction

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/ownclient"
)

// FieldManager owns the fields that the controller writes.
const FieldManager = "dra-steward-reaction"

// A Client reads and writes DeviceReactions, and their drains.
type Client struct {
	ownclient.Kind[*v1alpha1.DeviceReaction, *v1alpha1.DeviceReactionList]
	drains ownclient.Kind[*v1alpha1.DeviceDrain, *v1alpha1.DeviceDrainList]
}

// NewClient returns a client.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := ownclient.New(config)
	if err != nil {
		return nil, err
	}
	return &Client{ownclient.Reactions(client), ownclient.Drains(client)}, nil
}

// UpdateStatus writes the status of a reaction, unless it has changed since it was read.
func (c *Client) UpdateStatus(ctx context.Context, r *v1alpha1.DeviceReaction) (*v1alpha1.DeviceReaction, error) {
	return c.Kind.UpdateStatus(ctx, r, metav1.UpdateOptions{FieldManager: FieldManager})
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
