package server

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterdata"
	"github.com/dra-steward/dra-steward/internal/guard/impact"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/kubernetes/servergates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// ClusterView has the DeviceClasses of a cluster, its ResourceSlices as their drivers published
// them, and the other objects that policies read.
type ClusterView struct {
	tracked *tracker.Tracker
	// rules are the DeviceTaintRules that it reads, for the guard.
	rules cache.SharedIndexInformer
	// patches are read by themselves: rules look at devices as they were published, so
	// that merging would be for nothing.
	patches     *tracker.PatchReader
	clusterData clusterdata.Data
	templates   *clusterdata.Templates
	server      serverVersion
	// gates are those of the API server; nil where they are not read.
	gates *servergates.Watch
	rest  rest.Interface
	log   logr.Logger
	// runnables are the other readers of the cluster, each until ctx ends; also returns what it
	// has not read yet, and may be nil.
	runnables []func(ctx context.Context)
	also      func() error
	sample    atomic.Pointer[sample]
}

// A sample is what was chosen of the slices of a snapshot.
type sample struct {
	of     *tracker.Snapshot
	chosen any
}

var _ validate.ClusterView = (*ClusterView)(nil)

// newClusterView prepares the view of the cluster of a kubeconfig file; an empty name is
// the cluster that this process runs in.
func newClusterView(kubeconfig string, registerer prometheus.Registerer, log logr.Logger) (*ClusterView, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or switch --live-data off", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	// No rule or policy looks at anything else; what is not read needs no right.
	sources, err := tracker.NewSources(config, log, tracker.SliceKind, tracker.ClassKind, tracker.RuleKind)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	patches, err := tracker.NewPatchReader(config, log)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	metrics, err := tracker.NewMetrics(registerer)
	if err != nil {
		return nil, err
	}
	counts, err := clusterdata.NewMetrics(registerer)
	if err != nil {
		return nil, err
	}
	namespaces, err := clusterdata.NewNamespaces(client, counts, log)
	if err != nil {
		return nil, err
	}
	w := &ClusterView{rules: sources.Rules, patches: patches, templates: clusterdata.NewTemplates(client, log),
		tracked: tracker.New(tracker.Options{Sources: sources, Logger: log, Metrics: metrics})}
	w.clusterData = clusterdata.Data{Namespaces: namespaces, TaintKeys: clusterdata.NewTaintKeys(w.tracked)}
	w.server.client, w.rest, w.log = client.Discovery(), client.Discovery().RESTClient(), log
	return w, nil
}

// run keeps the view up to date until ctx ends.
func (w *ClusterView) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { w.server.run(ctx) })
	running.Go(func() { w.patches.Run(ctx) })
	running.Go(func() { w.clusterData.Namespaces.Run(ctx) })
	for _, run := range w.runnables {
		running.Go(func() { run(ctx) })
	}
	return w.tracked.Run(ctx)
}

// ready is nil once everything has been read for the first time that can be.
func (w *ClusterView) ready(*http.Request) error {
	err := errors.Join(w.tracked.Ready(), w.patches.Ready(), w.clusterData.Namespaces.Ready())
	if w.also != nil {
		err = errors.Join(err, w.also())
	}
	return err
}

// Class returns a DeviceClass by name, nil if there is none.
func (w *ClusterView) Class(name string) *resourceapi.DeviceClass {
	return w.tracked.Snapshot().Class(name)
}

// Classes returns all DeviceClasses, in the order of their names.
func (w *ClusterView) Classes() iter.Seq[*resourceapi.DeviceClass] {
	return w.tracked.Snapshot().Classes()
}

// Pool returns the slices of a driver's pool, in the order of their names.
func (w *ClusterView) Pool(driver, name string) []*resourceapi.ResourceSlice {
	return w.tracked.Snapshot().PublishedByPool(driver, name)
}

// Slices returns all ResourceSlices, driver by driver.
func (w *ClusterView) Slices() iter.Seq[*resourceapi.ResourceSlice] {
	return w.tracked.Snapshot().PublishedSlices()
}

// Sample returns what choose returns for the slices, and keeps it until something changes in the
// tracker. Two requests that ask first both choose.
func (w *ClusterView) Sample(choose func(iter.Seq[*resourceapi.ResourceSlice]) any) any {
	now := w.tracked.Snapshot()
	if kept := w.sample.Load(); kept != nil && kept.of == now {
		return kept.chosen
	}
	kept := &sample{now, choose(now.PublishedSlices())}
	w.sample.Store(kept)
	return kept.chosen
}

// Snapshot returns the devices as they are now.
func (w *ClusterView) Snapshot() *tracker.Snapshot { return w.tracked.Snapshot() }

// Minor returns the minor version of Kubernetes, 0 while it is not known.
func (w *ClusterView) Minor() int { return w.server.minor() }

// Gates are the feature gates of a cluster of that minor version.
func (w *ClusterView) Gates(minor int) gates.Gates {
	if w.gates == nil {
		return gates.Defaults(minor)
	}
	return w.gates.Gates(minor)
}

// watchGates also reads the feature gates of the API server.
func (w *ClusterView) watchGates() {
	w.gates = servergates.NewWatch(w.rest, w.Minor, w.log)
	w.runnables = append(w.runnables, w.gates.Run)
}

// Patches returns all ResourceSlicePatches, in the order of their names.
func (w *ClusterView) Patches() iter.Seq[*v1alpha1.ResourceSlicePatch] { return w.patches.All() }

// Claims returns none: all claims of a cluster are more than a webhook should keep for a
// look at single allocations.
func (w *ClusterView) Claims() iter.Seq[*resourceapi.ResourceClaim] {
	return func(func(*resourceapi.ResourceClaim) bool) {}
}

// driverPods reads the pods of drivers when they are asked for: few are, and seldom. It needs
// the right to list pods only.
type driverPods struct {
	*impact.Estimator
	client kubernetes.Interface
}

var _ webhook.DriverPods = driverPods{}

func newDriverPods(kubeconfig string, counted *impact.Estimator) (driverPods, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return driverPods{}, fmt.Errorf("--kubeconfig: %w; outside a cluster, name a file or switch --driver-pods off", err)
	}
	// The controllers of a cluster delete at most 20 pods a second by default.
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return driverPods{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	return driverPods{counted, client}, nil
}

// Named returns the pod of that name, nil if it does not exist.
func (d driverPods) Named(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	found, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	return &found.Items[0], nil
}

// On returns the pods with these labels on a node.
func (d driverPods) On(ctx context.Context, namespace, node string, of map[string]string) ([]corev1.Pod, error) {
	found, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), LabelSelector: labels.SelectorFromSet(of).String()})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}
