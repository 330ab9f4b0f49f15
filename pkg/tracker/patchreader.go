package tracker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A PatchReader reads ResourceSlicePatches alone, for who has the slices from elsewhere and
// applies the patches by itself, as the scheduler does with a [patch.Set].
type PatchReader struct {
	// Informer has *v1alpha1.ResourceSlicePatch.
	Informer cache.SharedIndexInformer

	health *health
}

// NewPatchReader returns one that reads nothing yet. What keeps it from reading
// becomes its [Condition], the logger is told, and it is tried again.
func NewPatchReader(config *rest.Config, logger logr.Logger) (*PatchReader, error) {
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

// Ready is nil once patches have been read, or cannot be; before, it says what it waits for.
func (s *PatchReader) Ready() error {
	if s.Informer.HasSynced() || isClosed(s.Unavailable()) {
		return nil
	}
	if c := s.Condition(); c.Message != "" {
		return errors.New(c.Message)
	}
	return fmt.Errorf("%s: not read yet", PatchKind)
}

// All returns the patches that have been read, in the order of their names.
func (s *PatchReader) All() iter.Seq[*v1alpha1.ResourceSlicePatch] {
	return func(yield func(*v1alpha1.ResourceSlicePatch) bool) {
		for _, key := range slices.Sorted(slices.Values(s.Informer.GetStore().ListKeys())) {
			object, exists, err := s.Informer.GetStore().GetByKey(key)
			if p, ok := object.(*v1alpha1.ResourceSlicePatch); ok && exists && err == nil && !yield(p) {
				return
			}
		}
	}
}
