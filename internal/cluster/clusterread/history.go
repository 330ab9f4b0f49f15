package clusterread

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/manifest"
)

// A Release is where a command finds what a release has stored.
type Release struct {
	// Namespace is that of the release, Controller the name of the controller.
	Namespace, Controller string
}

// AddFlags adds the flags of a release.
func (r *Release) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&r.Namespace, "release-namespace", "dra-steward", "namespace of the release")
	f.StringVar(&r.Controller, "controller", "dra-steward-controller", "name of the controller of the release")
}

// History reads the history of devices. An error names what is missing.
func (s *Source) History(ctx context.Context, streams cmdutil.Streams, release Release, now time.Time) (*history.Store, error) {
	if s.Files != nil {
		return historyOfFiles(streams, s.Files)
	}
	r, err := s.begin(streams)
	if err != nil {
		return nil, err
	}
	defer r.progress.End()
	r.progress.Say("reading the history of devices")
	store, found, err := history.Read(ctx, r.client.CoreV1().ConfigMaps(release.Namespace), history.ConfigMapPrefix(release.Controller), now)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("cannot read the history: %w; the role dra-steward-oncall has the right", err)
	case err != nil:
		return nil, err
	case found == 0:
		return nil, fmt.Errorf("namespace %s has no ConfigMap %s: nothing records the history (controller.history.enabled), or the release is elsewhere (--release-namespace, --controller)",
			release.Namespace, history.ConfigMapName(history.ConfigMapPrefix(release.Controller), 0))
	}
	return store, nil
}

// historyOfFiles reads the ConfigMaps of files, however old, whatever the name of the controller is.
func historyOfFiles(streams cmdutil.Streams, files []string) (*history.Store, error) {
	store, found, shard := &history.Store{}, false, regexp.MustCompile(`^(.+-history)-\d+$`)
	for document, err := range (manifest.Reader{Stdin: streams.In, MaxBytes: manifest.DumpBytes}).Walk(files...) {
		if err != nil {
			return nil, err
		}
		if document.APIVersion != "v1" || document.Kind != "ConfigMap" {
			continue
		}
		object := &corev1.ConfigMap{}
		manifest.DecodeInto(document, object)
		if named := shard.FindStringSubmatch(object.Name); named != nil {
			found = true
			if err := history.AddConfigMap(store, named[1], object, time.Time{}); err != nil {
				return nil, fmt.Errorf("%s: %w", document.File, err)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("--from-files: no ConfigMap with the history of devices, such as dra-steward-controller-history-0")
	}
	return store, nil
}
