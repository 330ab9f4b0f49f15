// Package clusterdata reads what policies know of a cluster in addition to classes and slices:
// the labels of namespaces, and the keys of the taints that exist.
package clusterdata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// Data are those of a cluster. Either part may be nil, and is then not known.
type Data struct {
	Namespaces *Namespaces
	TaintKeys  *TaintKeys
}

var _ policy.ClusterData = Data{}

// NamespaceLabels returns the labels of a namespace, nil if it is not known.
func (d Data) NamespaceLabels(name string) map[string]string {
	if d.Namespaces == nil {
		return nil
	}
	return d.Namespaces.Labels(name)
}

// TaintKey reports whether a slice or taint rule has the key, and whether all have been read.
func (d Data) TaintKey(key string) (known, sure bool) {
	if d.TaintKeys == nil {
		return false, false
	}
	return d.TaintKeys.Known(key)
}

const (
	// readTimeout bounds a live read. API servers wait three seconds for a webhook, and
	// policies have one of them by default.
	readTimeout = 500 * time.Millisecond
	// readKept is how long the result of a live read counts: long enough for one write
	// and those that follow it at once, short enough that no request waits for it.
	readKept = time.Second
	// readsKept is how many such results there are at most.
	readsKept = 1024
)

// Namespaces knows the labels of namespaces. It watches them, and reads one that it has not
// seen from the API server: a namespace may be a moment old.
type Namespaces struct {
	client   kubernetes.Interface
	factory  informers.SharedInformerFactory
	lister   corelisters.NamespaceLister
	informer cache.SharedIndexInformer
	log      logr.Logger
	metrics  *Metrics

	reading singleflight.Group
	read    *utilcache.LRUExpireCache

	// barred is closed once listing namespaces is known to be forbidden.
	barred   chan struct{}
	barredBy sync.Once
}

// Metrics count what is read.
type Metrics struct{ misses *prometheus.CounterVec }

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dra_steward_namespace_reads_total",
		Help: "Namespaces that were read for a write because the cache did not have them yet, by result (found, absent, error)."}, []string{"result"})}
	return m, registerer.Register(m.misses)
}

// NewNamespaces prepares it; [Namespaces.Run] makes it work.
func NewNamespaces(client kubernetes.Interface, metrics *Metrics, log logr.Logger) (*Namespaces, error) {
	n := &Namespaces{client: client, log: log, read: utilcache.NewLRUExpireCache(readsKept), barred: make(chan struct{}),
		factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(labelsOnly)), metrics: metrics}
	n.lister = n.factory.Core().V1().Namespaces().Lister()
	n.informer = n.factory.Core().V1().Namespaces().Informer()
	return n, n.informer.SetWatchErrorHandlerWithContext(n.failed)
}

// labelsOnly saves the memory of fields without a reader.
func labelsOnly(object any) (any, error) {
	namespace, is := object.(*corev1.Namespace)
	if !is {
		return object, nil
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name, UID: namespace.UID,
		ResourceVersion: namespace.ResourceVersion, Labels: namespace.Labels}}, nil
}

// failed notes that namespaces cannot be listed or watched.
func (n *Namespaces) failed(ctx context.Context, reflector *cache.Reflector, err error) {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		return
	}
	n.barredBy.Do(func() {
		close(n.barred)
		n.log.Info("cannot watch namespaces; reading them one by one; grant list and watch", "error", err.Error())
	})
}

// Run watches until ctx ends.
func (n *Namespaces) Run(ctx context.Context) {
	n.factory.StartWithContext(ctx)
	<-ctx.Done()
	n.factory.Shutdown()
}

// Ready is nil once all namespaces are known, or listing them is forbidden: each is then
// read on demand.
func (n *Namespaces) Ready() error {
	if n.informer.HasSynced() || cache.IsDone(listForbidden{n.barred}) {
		return nil
	}
	return errors.New("the namespaces are not synced yet")
}

type listForbidden struct{ done chan struct{} }

func (listForbidden) Name() string            { return "right to list namespaces" }
func (l listForbidden) Done() <-chan struct{} { return l.done }

// Labels returns the labels of a namespace, nil if it does not exist or
// cannot be read in half a second.
func (n *Namespaces) Labels(name string) map[string]string {
	if namespace, err := n.lister.Get(name); err == nil {
		return withName(namespace)
	}
	if labels, found := n.read.Get(name); found {
		known, _ := labels.(map[string]string)
		return known
	}
	labels, _, _ := n.reading.Do(name, func() (any, error) { return n.get(name), nil })
	read, _ := labels.(map[string]string)
	return read
}

// Known returns the labels of a namespace without asking the API server, nil if they are not
// known.
func (n *Namespaces) Known(name string) map[string]string {
	if namespace, err := n.lister.Get(name); err == nil {
		return withName(namespace)
	}
	labels, _ := n.read.Get(name)
	known, _ := labels.(map[string]string)
	return known
}

// get reads a namespace from the API server.
func (n *Namespaces) get(name string) map[string]string {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	namespace, err := n.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		n.metrics.misses.WithLabelValues("found").Inc()
		labels := withName(namespace)
		n.read.Add(name, labels, readKept)
		return labels
	case apierrors.IsNotFound(err):
		n.metrics.misses.WithLabelValues("absent").Inc()
	default:
		n.metrics.misses.WithLabelValues("error").Inc()
		n.log.Error(fmt.Errorf("%w; grant get", err), "cannot read a namespace; treating its labels as absent", "namespace", name)
	}
	n.read.Add(name, map[string]string(nil), readKept)
	return nil
}

// withName returns the labels, which are never nil: every namespace has at least the one
// with its name.
func withName(namespace *corev1.Namespace) map[string]string {
	if _, named := namespace.Labels[corev1.LabelMetadataName]; named {
		return namespace.Labels
	}
	labels := maps.Clone(namespace.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = namespace.Name
	return labels
}
