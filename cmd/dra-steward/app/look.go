package app

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

	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A look is what a command reads once: of a cluster, as far as the asker may, or of files.
type look struct {
	view   *tracker.Snapshot
	claims []*resourceapi.ResourceClaim
	pods   []*corev1.Pod
	nodes  []*corev1.Node
	// notes say what could not be read; noClasses that these are DeviceClasses.
	notes     []string
	noClasses bool
	// before135 says that the cluster is older than Kubernetes 1.35.
	before135 bool
}

// lookOptions say where to look, and what for beside devices.
type lookOptions struct {
	fromFiles  []string
	kubeconfig string
	timeout    time.Duration
	// claims reads those of all namespaces, or if that is forbidden of this one; pods
	// those of this one; nodes all.
	claims, pods, nodes bool
	namespace           string
}

func (o *lookOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&o.fromFiles, "from-files", nil, "read these files, folders or - for standard input instead of a cluster")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: the one that this runs in)")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait until the cluster has been read")
}

func (o *lookOptions) look(ctx context.Context, streams Streams) (*look, error) {
	if o.fromFiles != nil {
		return lookAtFiles(streams, o.fromFiles)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside of a cluster name a file, or use --from-files", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	l := &look{}
	if err := errors.Join(l.readView(ctx, config), o.read(ctx, client, l)); err != nil {
		return nil, err
	}
	for _, note := range l.notes {
		fmt.Fprintf(streams.Err, "warning: %s\n", note)
	}
	return l, nil
}

// lookAtFiles merges what files hold.
func lookAtFiles(streams Streams, files []string) (*look, error) {
	l := &look{}
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
				l.claims = append(l.claims, claim)
			} else if object != nil {
				objects = append(objects, object)
			}
		case document.APIVersion == "v1" && document.Kind == "Pod":
			l.pods = append(l.pods, &corev1.Pod{})
			problems = manifest.DecodeInto(document, l.pods[len(l.pods)-1])
		case document.APIVersion == "v1" && document.Kind == "Node":
			l.nodes = append(l.nodes, &corev1.Node{})
			problems = manifest.DecodeInto(document, l.nodes[len(l.nodes)-1])
		}
		for _, problem := range problems {
			fmt.Fprintf(streams.Err, "warning: %s: %v\n", document.File, problem)
		}
	}
	l.view = tracker.Merge(objects...)
	return l, nil
}

// readView reads devices and what changes them. What cannot be read is a note, but for
// ResourceSlices.
func (l *look) readView(ctx context.Context, config *rest.Config) error {
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
			l.notes = append(l.notes, condition.Message)
			l.noClasses = l.noClasses || condition.Kind == tracker.ClassKind
		}
	}
	l.view = tracked.Snapshot()
	return nil
}

// read reads what the command wants beside devices.
func (o *lookOptions) read(ctx context.Context, client kubernetes.Interface, l *look) error {
	var all metav1.ListOptions
	if info, err := client.Discovery().ServerVersion(); err == nil {
		l.before135 = older(info.GitVersion, "1.35")
	}
	if o.claims {
		claims, err := client.ResourceV1().ResourceClaims("").List(ctx, all)
		if apierrors.IsForbidden(err) && o.namespace != "" {
			l.notes = append(l.notes, "claims of other namespaces cannot be read: one of them may have a device that seems to be free")
			claims, err = client.ResourceV1().ResourceClaims(o.namespace).List(ctx, all)
		}
		switch {
		case apierrors.IsForbidden(err):
			l.notes = append(l.notes, "claims cannot be read: who has which device is not known")
		case err != nil:
			return err
		default:
			l.claims = pointers(claims.Items)
		}
	}
	if o.pods {
		pods, err := client.CoreV1().Pods(o.namespace).List(ctx, all)
		switch {
		case apierrors.IsForbidden(err):
			l.notes = append(l.notes, "pods cannot be read: where they may run is not known")
		case err != nil:
			return err
		default:
			l.pods = pointers(pods.Items)
		}
	}
	if o.nodes {
		nodes, err := client.CoreV1().Nodes().List(ctx, all)
		switch {
		case apierrors.IsForbidden(err):
			l.notes = append(l.notes, "nodes cannot be read")
		case err != nil:
			return err
		default:
			l.nodes = pointers(nodes.Items)
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

// holders are the claims that have devices.
func (l *look) holders() *usage.Index {
	index := &usage.Index{}
	for _, claim := range l.claims {
		index.SetClaim(claim)
	}
	return index
}
