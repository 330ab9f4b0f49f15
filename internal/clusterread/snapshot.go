// Package clusterread reads what commands need from a cluster or from files.
package clusterread

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A Snapshot is what a command reads once: of a cluster, as far as the asker may, or of files.
type Snapshot struct {
	View   *tracker.Snapshot
	Claims []*resourceapi.ResourceClaim
	Pods   []*corev1.Pod
	Nodes  []*corev1.Node
	// Notes say what could not be read; noClasses that these are DeviceClasses.
	Notes     []string
	NoClasses bool
	// Before135 says that the cluster is older than Kubernetes 1.35.
	Before135 bool
}

// SnapshotOptions say where to look, and what for beside devices.
type SnapshotOptions struct {
	fromFiles  []string
	Kubeconfig string
	Timeout    time.Duration
	// Claims reads those of all namespaces, or if that is forbidden of this one; pods
	// those of this one; nodes all.
	Claims, Pods, Nodes bool
	Namespace           string
}

func (o *SnapshotOptions) Flags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&o.fromFiles, "from-files", nil, "read these files, folders or - for standard input instead of a cluster")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: the cluster of this pod)")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "maximum time for reading the cluster")
}

func (o *SnapshotOptions) Read(ctx context.Context, streams cmdutil.Streams) (*Snapshot, error) {
	if o.fromFiles != nil {
		return snapshotOfFiles(streams, o.fromFiles)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or use --from-files", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	l := &Snapshot{}
	if err := errors.Join(l.readView(ctx, config), o.read(ctx, client, l)); err != nil {
		return nil, err
	}
	for _, note := range l.Notes {
		fmt.Fprintf(streams.Err, "warning: %s\n", note)
	}
	return l, nil
}

// snapshotOfFiles merges what files hold.
func snapshotOfFiles(streams cmdutil.Streams, files []string) (*Snapshot, error) {
	l := &Snapshot{}
	var objects []any
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(files...) {
		if err != nil {
			return nil, err
		}
		var problems []manifest.Problem
		switch {
		case document.Ours():
			var object manifest.Object
			object, problems = manifest.Decode(document)
			if claim, ok := object.(*resourceapi.ResourceClaim); ok {
				l.Claims = append(l.Claims, claim)
			} else if object != nil {
				objects = append(objects, object)
			}
		case document.APIVersion == "v1" && document.Kind == "Pod":
			l.Pods = append(l.Pods, &corev1.Pod{})
			problems = manifest.DecodeInto(document, l.Pods[len(l.Pods)-1])
		case document.APIVersion == "v1" && document.Kind == "Node":
			l.Nodes = append(l.Nodes, &corev1.Node{})
			problems = manifest.DecodeInto(document, l.Nodes[len(l.Nodes)-1])
		}
		for _, problem := range problems {
			fmt.Fprintf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	l.View = tracker.Merge(objects...)
	return l, nil
}

// readView reads devices and what changes them. What cannot be read is a note, but for
// ResourceSlices.
func (l *Snapshot) readView(ctx context.Context, config *rest.Config) error {
	sources, err := tracker.NewSources(config, logr.Discard())
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	// What cannot be read becomes a note; informers would log it beside.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	tracked := tracker.New(tracker.Options{Sources: sources})
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	failed := make(chan error, 1)
	running.Go(func() { failed <- tracked.Run(ctx) })
	select {
	case <-tracked.HasSyncedChecker().Done():
	case err := <-failed:
		return errors.Join(err, ctx.Err(), tracked.Ready())
	}
	for _, condition := range tracked.Conditions() {
		if !condition.Available {
			l.Notes = append(l.Notes, condition.Message)
			l.NoClasses = l.NoClasses || condition.Kind == tracker.ClassKind
		}
	}
	l.View = tracked.Snapshot()
	return nil
}

// read reads what the command wants beside devices.
func (o *SnapshotOptions) read(ctx context.Context, client kubernetes.Interface, l *Snapshot) error {
	var all metav1.ListOptions
	if info, err := client.Discovery().ServerVersion(); err == nil {
		l.Before135 = older(info.GitVersion, "1.35")
	}
	if o.Claims {
		claims, err := client.ResourceV1().ResourceClaims("").List(ctx, all)
		if apierrors.IsForbidden(err) && o.Namespace != "" {
			l.Notes = append(l.Notes, "claims of other namespaces cannot be read: a device that looks free can be allocated there")
			claims, err = client.ResourceV1().ResourceClaims(o.Namespace).List(ctx, all)
		}
		switch {
		case apierrors.IsForbidden(err):
			l.Notes = append(l.Notes, "claims cannot be read: the allocated devices are unknown")
		case err != nil:
			return err
		default:
			l.Claims = pointers(claims.Items)
		}
	}
	if o.Pods {
		pods, err := client.CoreV1().Pods(o.Namespace).List(ctx, all)
		switch {
		case apierrors.IsForbidden(err):
			l.Notes = append(l.Notes, "pods cannot be read: their nodes are unknown")
		case err != nil:
			return err
		default:
			l.Pods = pointers(pods.Items)
		}
	}
	if o.Nodes {
		nodes, err := client.CoreV1().Nodes().List(ctx, all)
		switch {
		case apierrors.IsForbidden(err):
			l.Notes = append(l.Notes, "nodes cannot be read")
		case err != nil:
			return err
		default:
			l.Nodes = pointers(nodes.Items)
		}
	}
	return nil
}

// older tells whether a version is before another; of one that cannot be read it is not
// known, and it is taken for the newest.
func older(version, other string) bool {
	parsed, err := utilversion.ParseGeneric(version)
	return err == nil && parsed.LessThan(utilversion.MustParseGeneric(other))
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}

// Holders are the claims that have devices.
func (l *Snapshot) Holders() *usage.Index {
	index := &usage.Index{}
	for _, claim := range l.Claims {
		index.SetClaim(claim)
	}
	return index
}
