package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// eviction is the controller with all that it needs.
type eviction struct {
	options controllerOptions
	// client is for the evictions, quiet for Lease, ConfigMap and events, so that
	// neither waits for the other.
	client, quiet kubernetes.Interface
	informers     informers.SharedInformerFactory
	evictor       evictor.Options
	// beside is what else the leader does, each until ctx ends.
	beside []func(ctx context.Context) error
	log    logr.Logger
}

func (o controllerOptions) newEviction(config *rest.Config, registry *prometheus.Registry, log logr.Logger) (*eviction, error) {
	client, err := clientFor(config, o.perSecond)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	quiet, err := clientFor(config, 0)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	e := &eviction{options: o, client: client, quiet: quiet, log: log, informers: informers.NewSharedInformerFactory(client, 0)}
	sources, err := tracker.NewSources(config, log)
	if err != nil {
		return nil, err
	}
	trackerMetrics, err := tracker.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	metrics, err := evictor.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	e.evictor = evictor.Options{
		Client:  client,
		Tracker: tracker.New(tracker.Options{Sources: sources, Logger: log, Metrics: trackerMetrics}),
		Rules:   sources.Rules,
		Claims:  e.informers.Resource().V1().ResourceClaims().Informer(),
		Pods:    e.informers.Core().V1().Pods().Informer(),
		Mode:    evictor.Mode(o.mode), Settings: settings, Limits: o.limits(),
		Metrics: metrics, Logger: log,
	}
	return e, errors.Join(
		e.evictor.Pods.SetTransform(evictor.StripPod),
		e.evictor.Claims.SetTransform(withoutManagedFields))
}

// run reads the cluster from the start on, so that a new leader has what it needs, and
// evicts while it leads.
func (e *eviction) run(ctx context.Context) error {
	since, err := e.since(ctx)
	if err != nil {
		return err
	}
	e.evictor.ActSince = since
	if evictor.Mode(e.options.mode) != evictor.ModeObserve {
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(&coreclient.EventSinkImpl{Interface: e.quiet.CoreV1().Events("")})
		e.evictor.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: evictor.FieldManager})
	}
	// It adds indexes, which must be there before the informers start.
	controller, err := evictor.New(e.evictor)
	if err != nil {
		return err
	}
	e.log.Info("controller", "mode", e.options.mode, "actSince", since)
	group, ctx := errgroup.WithContext(ctx)
	e.informers.StartWithContext(ctx)
	group.Go(func() error { return e.evictor.Tracker.Run(ctx) })
	group.Go(func() error {
		if !e.options.leaderElect {
			return e.lead(ctx, controller)
		}
		return e.elect(ctx, controller)
	})
	err = group.Wait()
	e.informers.Shutdown()
	return err
}

// lead does all that a leader does.
func (e *eviction) lead(ctx context.Context, controller *evictor.Controller) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return controller.Run(ctx) })
	for _, run := range e.beside {
		group.Go(func() error { return run(ctx) })
	}
	return group.Wait()
}

// elect waits for the Lease and works while it holds it.
func (e *eviction) elect(ctx context.Context, controller *evictor.Controller) error {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, _ := os.Hostname() // the UUID makes the identity unique without it
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, e.options.namespace, e.options.name,
		e.quiet.CoreV1(), e.quiet.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return err
	}
	var failed error
	var led atomic.Bool
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, Name: e.options.name,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				led.Store(true)
				e.log.Info("leading", "lease", e.options.namespace+"/"+e.options.name)
				defer close(ended)
				failed = e.lead(ctx, controller)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	select {
	case <-ended:
	case <-ctx.Done(): // perhaps before it ever led
		if !led.Load() {
			return nil
		}
		<-ended
	}
	if failed == nil && parent.Err() == nil {
		failed = errors.New("the Lease is lost: another controller works")
	}
	return failed
}

// actSinceKey is where the ConfigMap says which taints are new enough to act on.
const actSinceKey = "actSince"

// since is the time of the first start in a mode that evicts, or what an admin has
// written in its place.
func (e *eviction) since(ctx context.Context) (time.Time, error) {
	if e.options.actSince != "" || evictor.Mode(e.options.mode) == evictor.ModeObserve {
		return parseSince(e.options.actSince)
	}
	maps := e.quiet.CoreV1().ConfigMaps(e.options.namespace)
	kept, err := maps.Get(ctx, e.options.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// Times of taints have no unit below a second: those of this second are older.
		now := time.Now().UTC().Truncate(time.Second).Add(time.Second)
		first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: e.options.name}, Data: map[string]string{actSinceKey: now.Format(time.RFC3339)}}
		kept, err = maps.Create(ctx, first, metav1.CreateOptions{FieldManager: evictor.FieldManager})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("ConfigMap %s/%s: %w", e.options.namespace, e.options.name, err)
	}
	text := kept.Data[actSinceKey]
	if text == "" {
		text = kept.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	at, err := parseSince(text)
	if err != nil {
		return at, fmt.Errorf("ConfigMap %s/%s: %s: %w", e.options.namespace, e.options.name, actSinceKey, err)
	}
	return at, nil
}

// ready is nil once the cluster has been read.
func (e *eviction) ready(*http.Request) error {
	for kind, informer := range map[string]cache.SharedIndexInformer{"ResourceClaims": e.evictor.Claims, "Pods": e.evictor.Pods} {
		if !informer.HasSynced() {
			return fmt.Errorf("%s are not read yet", kind)
		}
	}
	return e.evictor.Tracker.Ready()
}

// withoutManagedFields saves the memory of what nobody looks at.
func withoutManagedFields(object any) (any, error) {
	if object, ok := object.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	return object, nil
}
