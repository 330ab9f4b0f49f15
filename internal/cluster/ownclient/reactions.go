package ownclient

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// ReactionManager owns the fields that the controller of reactions writes.
const ReactionManager = "dra-steward-reaction"

// A ReactionClient reads and writes DeviceReactions, and their drains.
type ReactionClient struct {
	Kind[*v1alpha1.DeviceReaction, *v1alpha1.DeviceReactionList]
	drains Kind[*v1alpha1.DeviceDrain, *v1alpha1.DeviceDrainList]
}

// NewReactionClient returns a client.
func NewReactionClient(config *rest.Config) (*ReactionClient, error) {
	client, err := New(config)
	if err != nil {
		return nil, err
	}
	return &ReactionClient{Reactions(client), Drains(client)}, nil
}

// UpdateStatus writes the status of a reaction, unless it has changed since it was read.
func (c *ReactionClient) UpdateStatus(ctx context.Context, r *v1alpha1.DeviceReaction) (*v1alpha1.DeviceReaction, error) {
	return c.Kind.UpdateStatus(ctx, r, metav1.UpdateOptions{FieldManager: ReactionManager})
}

// CreateDrain makes a drain.
func (c *ReactionClient) CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.drains.Create(ctx, d, metav1.CreateOptions{FieldManager: ReactionManager})
}

// UpdateDrain writes metadata and spec of a drain, unless it has changed since it was read.
func (c *ReactionClient) UpdateDrain(ctx context.Context, d *v1alpha1.DeviceDrain) (*v1alpha1.DeviceDrain, error) {
	return c.drains.Update(ctx, d, metav1.UpdateOptions{FieldManager: ReactionManager})
}

// DeleteDrain deletes a drain, unless another has its name.
func (c *ReactionClient) DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain) error {
	return c.drains.Delete(ctx, d.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(d.UID))})
}
