package clusterread

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// untyped are the objects of a resource whose version differs between servers.
type untyped = resource[*unstructured.UnstructuredList]

// servedRules are the DeviceTaintRules in the newest version that is served. It asks again which one that
// is when the version is gone, as after an upgrade of the API server.
type servedRules struct {
	ask func() (untyped, error)

	mutex   sync.Mutex
	current untyped
	missing error
}

// connect asks which version is served, once or again. That none is served stays so.
func (s *servedRules) connect(again bool) (untyped, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.missing != nil || s.current != nil && !again {
		return s.current, s.missing
	}
	current, err := s.ask()
	switch {
	case err == nil:
		s.current = current
	case s.current == nil && errors.Is(err, ErrNoRules):
		s.missing = err
	}
	return current, err
}

// List lists the rules.
func (s *servedRules) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return fromServed(s, func(from untyped) (*unstructured.UnstructuredList, error) { return from.List(ctx, options) })
}

// Watch watches the rules.
func (s *servedRules) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return fromServed(s, func(from untyped) (watch.Interface, error) { return from.Watch(ctx, options) })
}

func fromServed[T any](s *servedRules, read func(untyped) (T, error)) (got T, err error) {
	var from untyped
	for _, again := range []bool{false, true} {
		if from, err = s.connect(again); err != nil {
			return got, err
		}
		if got, err = read(from); !apierrors.IsNotFound(err) {
			break
		}
	}
	return got, err
}
