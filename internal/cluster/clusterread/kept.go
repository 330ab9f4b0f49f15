package clusterread

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// Lister returns a lister of one namespace, or of all if that is empty. With a watcher, it
// reads what that keeps, which is all namespaces. The caller ends the progress.
func (s *Source) Lister(streams cmdutil.Streams, namespace string) (*Lister, error) {
	if s.Watcher == nil {
		config, err := s.Client.Config(streams)
		if err != nil {
			return nil, err
		}
		l, err := NewLister(config, namespace)
		if err == nil {
			l.Progress = s.Client.Progress(streams, "connecting to "+config.Host)
		}
		return l, err
	}
	r, err := s.begin(streams)
	if err != nil {
		return nil, err
	}
	r.progress.End()
	if s.Watcher.lister != nil {
		return s.Watcher.lister, nil
	}
	s.Watcher.lister, err = NewLister(r.config, "")
	if err == nil {
		s.Watcher.lister.watched = r
	}
	return s.Watcher.lister, err
}

// each calls visit for the objects of a list that a watcher keeps, as JSON.
func (r *reading) each(ctx context.Context, l Listing, visit func([]byte) error) error {
	objects, err := r.kept(ctx, l.Kind)
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", l.resource, err)
	}
	for _, object := range objects {
		data, err := json.Marshal(object)
		if err == nil {
			err = visit(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kept are the objects of a kind, which other reads of the same command share.
func (r *reading) kept(ctx context.Context, kind string) ([]runtime.Object, error) {
	devices := r.client.ResourceV1()
	switch kind {
	case "ResourceSlice":
		return list[runtime.Object](ctx, r, "ResourceSlices", r.slices())
	case "ResourceClaim":
		return list[runtime.Object](ctx, r, "ResourceClaims", r.claims(""))
	case "ResourceClaimTemplate":
		return list[runtime.Object](ctx, r, "ResourceClaimTemplates", devices.ResourceClaimTemplates(""))
	case "DeviceClass":
		return list[runtime.Object](ctx, r, "DeviceClasses", devices.DeviceClasses())
	case "Namespace":
		return list[runtime.Object](ctx, r, "namespaces", r.client.CoreV1().Namespaces())
	case "DeviceTaintRule":
		return list[runtime.Object](ctx, r, "DeviceTaintRules", r.served)
	}
	return nil, fmt.Errorf("objects of kind %s are not watched", kind)
}
