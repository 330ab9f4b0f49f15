package tracker

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A PatchReader reads ResourceSlicePatches alone, for who has the slices from elsewhere and
// applies the patches by itself, as the scheduler does with a [patch.Set].
type PatchReader struct {
	// Informer has *v1alpha1.ResourceSlicePatch.
	Informer cache.SharedIndexInformer

	health *health
}

// NewPatchSource returns one that reads nothing yet. What keeps it from reading
// becomes its [Condition], the logger is told, and it is tried again.
func NewPatchSource(config *rest.Config, logger logr.Logger) (*PatchReader, error) {
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for ResourceSlicePatches: %w", err)
	}
	health := newHealth(logger, []Kind{PatchKind}, time.Now())
	informer := health.informer(PatchKind, nil, untyped)
	if err := informer.SetTransform(withoutManagedFields); err != nil {
		return nil, err
	}
	return &PatchReader{Informer: informer, health: health}, nil
}

// Run reads until ctx ends.
func (s *PatchReader) Run(ctx context.Context) { s.Informer.RunWithContext(ctx) }

// Condition says how reading goes.
func (s *PatchReader) Condition() Condition { return s.health.list()[0] }

// Unavailable returns a channel that is closed once the API server has said that it has no
// patches or that they must not be read: who waits for the Informer to sync need not wait
// any more.
func (s *PatchReader) Unavailable() <-chan struct{} { return s.health.dispensed[PatchKind] }
