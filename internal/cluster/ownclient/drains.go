package ownclient

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// DrainManager owns the fields that the controller of drains writes.
const DrainManager = "dra-steward-drain"

// A DrainClient reads and writes DeviceDrains.
type DrainClient struct {
	client rest.Interface
	Kind[*v1alpha1.DeviceDrain, *v1alpha1.DeviceDrainList]
}

// NewDrainClient returns a client.
func NewDrainClient(config *rest.Config) (*DrainClient, error) {
	client, err := New(config)
	if err != nil {
		return nil, err
	}
	return &DrainClient{client, Drains(client)}, nil
}

// Get reads a drain.
func (c *DrainClient) Get(ctx context.Context, name string) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.Get(ctx, name, metav1.GetOptions{})
}

// Reaction returns an error if a DeviceReaction cannot be read.
func (c *DrainClient) Reaction(ctx context.Context, name string) error {
	return c.client.Get().Resource(v1alpha1.DeviceReactionResource).Name(name).Do(ctx).Error()
}

// Create makes a drain; dryRun asks the API server only whether it would.
func (c *DrainClient) Create(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.Create(ctx, d, metav1.CreateOptions{DryRun: DryRun(dryRun)})
}

// Update writes metadata and spec of a drain, unless it has changed since it was read; dryRun asks the
// API server only whether it would.
func (c *DrainClient) Update(ctx context.Context, d *v1alpha1.DeviceDrain, dryRun bool) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.Update(ctx, d, metav1.UpdateOptions{FieldManager: DrainManager, DryRun: DryRun(dryRun)})
}

// UpdateStatus writes the status of a drain, unless it has changed since it was read.
func (c *DrainClient) UpdateStatus(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.Kind.UpdateStatus(ctx, d, metav1.UpdateOptions{FieldManager: DrainManager})
}

// Delete deletes a drain, which lifts its cordon.
func (c *DrainClient) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.Kind.Delete(ctx, name, options)
}
