package slicemerge

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controller/lease"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// AskElsewhere is how often it is asked whether a scheduler applies patches.
const AskElsewhere = 5 * time.Second

// NewElsewhere returns a function that says, by the Lease that it renews, whether a scheduler
// applies ResourceSlicePatches itself; empty if none does. It needs the verb get for that
// Lease, and is called from one goroutine.
func NewElsewhere(config *rest.Config) (func(ctx context.Context, now time.Time) (string, error), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for Leases: %w", err)
	}
	var seen lease.Observed
	return func(ctx context.Context, now time.Time) (string, error) {
		l, err := client.CoordinationV1().Leases(record.SchedulerLeaseNamespace).Get(ctx, record.SchedulerLeaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "", nil
		case err != nil:
			return "", fmt.Errorf("whether a scheduler applies ResourceSlicePatches: %w", err)
		case seen.Holder(l.Spec, now) == "":
			return "", nil
		}
		return fmt.Sprintf("a scheduler applies ResourceSlicePatches itself (Lease %s/%s): choose one of the two: "+
			"patches.mode=restore for the scheduler, or no scheduler with the plugin PatchedDynamicResources (docs/patches.md)", l.Namespace, l.Name), nil
	}, nil
}

// Follow asks, until ctx ends, whether patches are applied elsewhere: while they are,
// slices are written as with [None]. It calls first when it knows, or cannot know, for the
// first time. While that cannot be determined, the last result counts; at the beginning, no
// other scheduler.
func (m *Merger) Follow(ctx context.Context, elsewhere func(ctx context.Context, now time.Time) (string, error), first func()) {
	ticker := time.NewTicker(AskElsewhere)
	defer ticker.Stop()
	for {
		said, err := elsewhere(ctx, time.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			m.log.Error(err, "Cannot read whether a scheduler applies patches")
		case err == nil && m.elsewhere.Swap(said != "") != (said != ""):
			m.log.Info("The component that applies patches has changed", "elsewhere", said)
		}
		first()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
