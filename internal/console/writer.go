package console

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/taints"
)

// A Writer writes to the cluster with the rights of the user. A dry write is checked by the API server
// and not stored. The warnings are those of the API server.
type Writer interface {
	// User is the name of the user.
	User(ctx context.Context) (string, error)
	// Faults are the known faults that a taint sets off; one that the cluster certainly has is an error.
	Faults(ctx context.Context) (warnings []string, _ error)
	// Rule reads a rule; nil if there is none.
	Rule(ctx context.Context, name string) (*resourceapi.DeviceTaintRule, error)
	// ApplyRule writes the rule of an intent, and returns whether it is created, changed or unchanged.
	ApplyRule(ctx context.Context, intent taints.Intent, stored *resourceapi.DeviceTaintRule, dry bool) (did string, warnings []string, _ error)
	// DeleteRule deletes a stored rule.
	DeleteRule(ctx context.Context, stored *resourceapi.DeviceTaintRule, dry bool) (warnings []string, _ error)
	// CreateDrain creates a drain, and fails if there is one with its name.
	CreateDrain(ctx context.Context, d *v1alpha1.DeviceDrain, dry bool) (warnings []string, _ error)
	// PauseDrain pauses a drain, or makes it go on; DeleteDrain deletes it if it is still this one.
	PauseDrain(ctx context.Context, d *v1alpha1.DeviceDrain, paused, dry bool) (warnings []string, _ error)
	DeleteDrain(ctx context.Context, d *v1alpha1.DeviceDrain, dry bool) (warnings []string, _ error)
	// Drain reads a drain; nil if there is none.
	Drain(ctx context.Context, name string) (*v1alpha1.DeviceDrain, error)
}
