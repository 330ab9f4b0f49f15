package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/existing"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// stored are the objects that a cluster or files have, in a namespace, or in all if that is empty.
type stored struct {
	source    clusterread.Source
	namespace string
	// view has the classes and slices of a cluster if they have been read; otherwise it is nil.
	view *tracker.Snapshot
}

// visit is called for each stored object.
type visit = func(audit.Object) error

// each adds to the options what exists in addition to a checked object, calls begin, and then what that returns for each
// object.
func (s stored) each(ctx context.Context, streams cmdutil.Streams, options *audit.Options, begin func() (visit, error)) error {
	if s.source.Files != nil {
		return s.eachOfFiles(streams, options, begin)
	}
	l, err := s.source.Lister(streams, s.namespace)
	if err != nil {
		return err
	}
	defer l.Progress.End()
	if options.Minor, err = l.Minor(); err != nil {
		return err
	}
	all, around, err := l.Surroundings(ctx, s.view)
	if err != nil {
		return err
	}
	if s.namespace != "" && !around.HasNamespace(s.namespace) {
		return fmt.Errorf("--namespace %s: the cluster has no such namespace", s.namespace)
	}
	visit, err := beginWith(around, options, begin)
	if err != nil {
		return err
	}
	for _, listing := range all {
		if listing.Kind == "Namespace" || s.namespace != "" && !listing.Namespaced {
			continue
		}
		err := l.Each(ctx, listing, func(data []byte) error { return visit(audit.Object{Kind: listing.GVK(), JSON: data}) })
		if err != nil {
			return err
		}
	}
	return nil
}

func beginWith(around *existing.Objects, options *audit.Options, begin func() (visit, error)) (visit, error) {
	options.ClusterView, options.ClusterData = around, around
	return begin()
}

// eachOfFiles takes what files have for what exists.
func (s stored) eachOfFiles(streams cmdutil.Streams, options *audit.Options, begin func() (visit, error)) error {
	for _, file := range s.source.Files {
		if file == manifest.Stdin {
			return errors.New("--from-files -: standard input cannot be read twice; name a file")
		}
	}
	reader := manifest.Reader{Stdin: streams.In, MaxBytes: manifest.DumpBytes}
	around, err := lint.Existing(reader, s.source.Files)
	if err != nil {
		return fmt.Errorf("--from-files: %w", err)
	}
	visit, err := beginWith(around, options, begin)
	if err != nil {
		return err
	}
	for document, err := range reader.Walk(s.source.Files...) {
		if err != nil {
			return err
		}
		if !document.Ours() || s.namespace != "" && document.Namespace != s.namespace {
			continue
		}
		object, problems := manifest.Decode(document)
		if object == nil {
			return fmt.Errorf("%s:%d: %s %s: %v", document.File, document.Line, document.Kind, document.Name, problems[0])
		}
		data, err := json.Marshal(object)
		if err == nil {
			err = visit(audit.Object{Kind: object.GetObjectKind().GroupVersionKind(), JSON: data})
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", document.File, document.Line, err)
		}
	}
	return nil
}
