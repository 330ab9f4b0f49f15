// Package clusterread reads what commands need from a cluster or from files.
package clusterread

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Snapshot is what a command reads once: of a cluster, as far as the asker may, or of files.
type Snapshot struct {
	View   *tracker.Snapshot
	Claims []*resourceapi.ResourceClaim
	Pods   []*corev1.Pod
	Nodes  []*corev1.Node
	// Storage and Namespaces are read if pods use volumes, or affinity to pods of namespaces with labels.
	Storage    placement.Storage
	Namespaces []*corev1.Namespace
	// Drains are those of files; of a cluster they are not read.
	Drains []*v1alpha1.DeviceDrain
	// PartialClaims is true if there are claims that could not be read.
	PartialClaims bool
	// Notes are about objects that could not be read. NoClasses is true if these are
	// DeviceClasses.
	Notes     []string
	NoClasses bool
	// NoRules is true if DeviceTaintRules could not be read, NoPods if pods could not.
	NoRules, NoPods bool
	// Before135 is true if the cluster is older than Kubernetes 1.35.
	Before135 bool
	// Minor is the minor version of the API server, 0 if it is not known.
	Minor int
	// Server is the version of the API server; Scheduler that of kube-scheduler, if its
	// metrics were read. They are empty if they are not known.
	Server, Scheduler string
	// At is when a cluster was read; zero for files.
	At time.Time
	// Gates are the feature gates of kube-scheduler, if they were asked for.
	Gates gates.Gates
	Waiting
}

// Placement returns what was read, for the placement of pods.
func (s *Snapshot) Placement(patched bool) placement.Cluster {
	return placement.Cluster{
		View: s.View, Claims: s.Claims, Pods: s.Pods, Nodes: s.Nodes, Templates: s.Templates, Groups: s.Groups, Storage: s.Storage, Namespaces: s.Namespaces,
		Patched: patched, IncompletePools: s.Before135, Gates: placement.Known(s.Gates), Notes: s.Notes, Steps: placement.ManySteps, Now: s.At,
	}
}

// SnapshotOptions say where to read, and what in addition to devices.
type SnapshotOptions struct {
	Source
	// Claims reads those of all namespaces, or if that is forbidden of one; Pods
	// those of one; Nodes all; Waiting what the pods wait for.
	Claims, Pods, Nodes, Waiting bool
	// AllPods reads the pods, templates and PodGroups of all namespaces.
	AllPods bool
	// Everywhere makes it an error if the claims of all namespaces cannot be read.
	Everywhere bool
	// Gates reads the feature gates of kube-scheduler, or what is known of them, from
	// Scheduler if that is named.
	Gates     bool
	Scheduler SchedulerMetrics
}

// Need adds what the targets of a command refer to.
func (o *SnapshotOptions) Need(targets ...string) {
	for _, target := range targets {
		name, _, _ := strings.Cut(target, "/")
		kind := taints.Kinds()[name]
		o.Claims, o.Pods = o.Claims || kind == "claim" || kind == "pod", o.Pods || kind == "pod"
	}
}

// Read reads the objects. The namespace is that of the client.
func (o *SnapshotOptions) Read(ctx context.Context, streams cmdutil.Streams) (*Snapshot, error) {
	if o.Files != nil {
		return snapshotOfFiles(streams, o.Files)
	}
	namespace, err := o.Client.Namespace()
	if err != nil {
		return nil, err
	}
	r, err := o.begin(streams)
	if err != nil {
		return nil, err
	}
	defer r.progress.End()
	defer r.prefetch.end()
	l := &Snapshot{At: time.Now()}
	if err := l.readServer(r); err != nil {
		return nil, err
	}
	if o.Claims {
		readAhead(ctx, r, "ResourceClaims", r.claims(""))
	}
	if o.AllPods {
		readAhead(ctx, r, "pods", r.pods(""))
	}
	if err := r.view(ctx, l); err != nil {
		return nil, err
	}
	if err := o.read(ctx, r, l, namespace); err != nil {
		return nil, err
	}
	r.progress.End()
	for _, note := range l.Notes {
		printable.Printf(streams.Err, "warning: %s\n", note)
	}
	return l, nil
}

// readServer asks the server for its version.
func (s *Snapshot) readServer(r *reading) error {
	version, err := r.version()
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("cannot read the version of the API server: %w", err)
	}
	if err != nil {
		return nil
	}
	s.Server, s.Before135 = version, older(version, "1.35")
	if parsed, err := utilversion.ParseGeneric(version); err == nil && parsed.Major() == 1 {
		s.Minor = int(parsed.Minor())
	}
	return nil
}

// snapshotOfFiles merges what files hold.
func snapshotOfFiles(streams cmdutil.Streams, files []string) (*Snapshot, error) {
	l := &Snapshot{}
	var objects []any
	for document, err := range (manifest.Reader{Stdin: streams.In, MaxBytes: manifest.DumpBytes}).Walk(files...) {
		if err != nil {
			return nil, err
		}
		var problems []manifest.Problem
		switch {
		case document.Ours():
			var object manifest.Object
			object, problems = manifest.Decode(document)
			newer.DecodeAny(document.Raw, object)
			switch typed := object.(type) {
			case nil:
			case *resourceapi.ResourceClaim:
				l.Claims = append(l.Claims, typed)
			case *resourceapi.ResourceClaimTemplate:
				l.Templates = append(l.Templates, typed)
			case *v1alpha1.DeviceDrain:
				l.Drains = append(l.Drains, typed)
			default:
				objects = append(objects, object)
			}
		case document.APIVersion == "v1" && document.Kind == "Pod":
			var pod *corev1.Pod
			pod, problems = podOf(document)
			l.Pods = append(l.Pods, pod)
		case document.APIVersion == "v1" && document.Kind == "Node":
			l.Nodes = append(l.Nodes, &corev1.Node{})
			problems = manifest.DecodeInto(document, l.Nodes[len(l.Nodes)-1])
		default:
			var waiting bool
			if problems, waiting = l.addWaiting(document); !waiting {
				problems = l.addStorage(document)
			}
		}
		for _, problem := range problems {
			printable.Printf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	l.View, l.NoTemplates = tracker.Merge(objects...), len(l.Templates) == 0
	return l, nil
}

// read reads what the command needs in addition to devices.
func (o *SnapshotOptions) read(ctx context.Context, r *reading, l *Snapshot, namespace string) error {
	denied := l.denied
	if o.Claims {
		var err error
		l.Claims, err = list[*resourceapi.ResourceClaim](ctx, r, "ResourceClaims", r.claims(""))
		if apierrors.IsForbidden(err) && o.Everywhere {
			return fmt.Errorf("--all-namespaces: %w; without this flag, only the claims of one namespace are read", err)
		}
		l.PartialClaims = apierrors.IsForbidden(err)
		if l.PartialClaims {
			l.Notes = append(l.Notes, "claims of other namespaces cannot be read: a device that looks free can be allocated there")
			l.Claims, err = list[*resourceapi.ResourceClaim](ctx, r, "ResourceClaims of namespace "+namespace, r.claims(namespace))
		}
		if err := denied(err, "claims cannot be read: the allocated devices are unknown"); err != nil {
			return err
		}
	}
	if o.Pods {
		var err error
		l.Pods, err = list[*corev1.Pod](ctx, r, "pods", r.pods(namespace))
		if err := denied(err, "pods cannot be read: their nodes are unknown"); err != nil {
			return err
		}
	}
	if o.Nodes {
		var err error
		l.Nodes, err = list[*corev1.Node](ctx, r, "nodes", r.nodes())
		if err == nil && l.Nodes == nil {
			l.Nodes = []*corev1.Node{} // nil is not known
		}
		if err := denied(err, "nodes cannot be read"); err != nil {
			return err
		}
	}
	if o.Gates {
		if err := o.Scheduler.read(ctx, r, l); err != nil {
			return err
		}
	}
	switch {
	case o.AllPods:
		return l.readAllPods(ctx, r)
	case o.Waiting:
		return l.readWaiting(ctx, r, namespace)
	}
	return nil
}

// denied makes a note of a list that is forbidden; other errors stay.
func (s *Snapshot) denied(err error, note string) error {
	if apierrors.IsForbidden(err) {
		s.Notes = append(s.Notes, note)
		return nil
	}
	return err
}

// older reports whether a version is before another; of one that cannot be read it is not
// known, and it is taken for the newest.
func older(version, other string) bool {
	parsed, err := utilversion.ParseGeneric(version)
	return err == nil && parsed.LessThan(utilversion.MustParseGeneric(other))
}

// Holders are the claims that have devices.
func (s *Snapshot) Holders() *usage.Index {
	index := &usage.Index{}
	for _, claim := range s.Claims {
		index.SetClaim(claim)
	}
	return index
}

// Scope is what names of targets can refer to.
func (s *Snapshot) Scope(namespace string) taints.Scope {
	index := s.Holders()
	for _, pod := range s.Pods {
		index.SetPod(pod)
	}
	return taints.Scope{View: s.View, Index: index, Namespace: namespace, Names: func(yield func(usage.DeviceID) bool) {
		for d := range s.View.Devices() {
			if !yield(usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}) {
				return
			}
		}
	}}
}
