package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/controllers"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard/impact"
	"github.com/dra-steward/dra-steward/internal/kubernetes/servergates"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
	"github.com/dra-steward/dra-steward/internal/serving/version"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// eviction is the controller with all that it needs.
type eviction struct {
	options Options
	clients
	// fence stops the evictions of a replica that has lost the Lease.
	fence        *fence
	informers    informers.SharedInformerFactory
	claims, pods cache.SharedIndexInformer
	// budgets and drains are read for drains only, reactions for reactions only, and nil without.
	budgets, drains, reactions cache.SharedIndexInformer
	// usage is the one index of who holds which device.
	usage   *usage.Index
	evictor evictor.Options
	// beginnings are the evictions that began, once begunSynced are done; nil without drains.
	beginnings  *impact.Estimator
	begunSynced []cache.DoneChecker
	// gates are those of the API server, for where pods land; nil where that is not asked.
	gates *servergates.Watch
	// lands finds out which pods of a drain do not land again; nil where that is not asked.
	lands drain.Foresight
	// resyncer brings slices to what patches make of them; nil where slices are left alone.
	resyncer *materialize.Resyncer
	// controllers are what else the leader runs.
	controllers []controllers.Controller
	// leading is 1 while this replica leads.
	leading prometheus.Gauge
	log     logr.Logger
}

// clients are those of an eviction. None waits for the calls of another.
type clients struct {
	// client is for the evictions, quiet for Lease, ConfigMap and events, and journal for the
	// eviction journal. Without the Lease, only quiet writes.
	client, quiet, journal kubernetes.Interface
}

func (o Options) newClients(config *rest.Config, fence *fence) (c clients, err error) {
	fenced := fence.around(config)
	for _, made := range []struct {
		client    *kubernetes.Interface
		config    *rest.Config
		perSecond float64
	}{{&c.client, fenced, o.perSecond}, {&c.quiet, config, 0}, {&c.journal, fenced, 0}} {
		if *made.client, err = clientFor(made.config, made.perSecond); err != nil {
			return c, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	return c, nil
}

func (o Options) newEviction(config *rest.Config, registry *prometheus.Registry, log logr.Logger) (*eviction, error) {
	fence := &fence{}
	clients, err := o.newClients(config, fence)
	if err != nil {
		return nil, err
	}
	e := &eviction{options: o, clients: clients, fence: fence, log: log, usage: &usage.Index{}, informers: informers.NewSharedInformerFactory(clients.client, 0)}
	e.claims, e.pods = e.informers.Resource().V1().ResourceClaims().Informer(), e.informers.Core().V1().Pods().Informer()
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
	settings, err := o.Settings()
	if err != nil {
		return nil, err
	}
	e.evictor = evictor.Options{
		Client:  e.client,
		Tracker: tracker.New(tracker.Options{Sources: sources, Logger: log, Metrics: trackerMetrics}),
		Rules:   sources.Rules,
		Usage:   e.usage,
		Mode:    evictor.Mode(o.Mode), Settings: settings, Limits: o.limits(), Thresholds: o.thresholds(),
		About:   &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.namespace, Name: o.Name},
		Metrics: metrics, Logger: log,
	}
	if e.evictor.Mode == evictor.ModeAuto {
		untyped, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		e.evictor.InTreeDetector = evictor.RuleProbe{Client: untyped}
	}
	shared := &compact.Shared{}
	return e, errors.Join(e.pods.SetTransform(shared.Around(o.keepPods())), e.claims.SetTransform(shared.Around(o.keepClaims())))
}

// run reads the cluster from the start on, so that a new leader has what it needs, and
// evicts while it leads.
func (e *eviction) run(ctx context.Context) error {
	said, err := e.confirmation(ctx)
	if err != nil {
		return err
	}
	e.evictor.ActSince = said.ActSince
	if evictor.Mode(e.options.Mode) != evictor.ModeObserve {
		e.evictor.Journal = e.newJournal()
		broadcaster := e.broadcaster(ctx)
		defer broadcaster.Shutdown()
		e.evictor.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: evictor.FieldManager})
	}
	synced, unlisten, err := e.usage.Listen(usage.Informers{Claims: e.claims, Pods: e.pods, Budgets: e.budgets})
	if err != nil {
		return err
	}
	e.evictor.UsageSynced = synced
	controller, err := evictor.New(e.evictor)
	if err != nil {
		return errors.Join(err, unlisten())
	}
	controller.Confirm(said)
	log := e.log
	if !said.ActSince.IsZero() {
		log = log.WithValues("actSince", said.ActSince)
	}
	log.Info("controller", "version", version.Get().Version, "commit", version.Get().Commit, "mode", e.options.Mode)
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
	return errors.Join(err, unlisten())
}

// newJournal returns the eviction journal. A replica that has lost the Lease does not overwrite that of
// the next leader.
func (e *eviction) newJournal() evictor.ConfigMapJournal {
	return evictor.ConfigMapJournal{Client: e.journal, Namespace: e.options.namespace, Name: JournalName(e.options.Name)}
}

// JournalName is the ConfigMap in which a controller writes down who was evicted.
func JournalName(controller string) string { return controller + "-evictions" }

// add lets the leader run a controller.
func (e *eviction) add(name string, run func(context.Context) error) {
	e.controllers = append(e.controllers, controllers.Named(name, run))
}

// addRecording lets the leader run a controller that makes events.
func (e *eviction) addRecording(name, component string, run func(context.Context, record.EventRecorder) error) {
	e.add(name, func(ctx context.Context) error {
		broadcaster := e.broadcaster(ctx)
		defer broadcaster.Shutdown()
		return run(ctx, broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component}))
	})
}

// broadcaster sends events to the API server until it is shut down.
func (e *eviction) broadcaster(ctx context.Context) record.EventBroadcaster {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&coreclient.EventSinkImpl{Interface: e.quiet.CoreV1().Events("")})
	return broadcaster
}

// lead does all that a leader does.
func (e *eviction) lead(ctx context.Context, controller *evictor.Controller) error {
	e.leading.Set(1)
	defer e.leading.Set(0)
	eviction := controllers.Named("eviction", func(ctx context.Context) error {
		said, ok := e.reconfirm(ctx, controller)
		if !ok {
			return nil
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return controller.Run(ctx) })
		group.Go(func() error { return e.listenToAdmin(ctx, controller, said) })
		return group.Wait()
	})
	return controllers.Run(ctx, append(e.controllers, eviction))
}

// elect waits for the Lease and works while it holds it.
func (e *eviction) elect(ctx context.Context, controller *evictor.Controller) error {
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	host, _ := os.Hostname() // the UUID makes the identity unique without it
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, e.options.namespace, e.options.Name,
		e.quiet.CoreV1(), e.quiet.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return err
	}
	var failed error
	var led atomic.Bool
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, Name: e.options.Name,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				led.Store(true)
				e.log.Info("leading", "lease", e.options.namespace+"/"+e.options.Name)
				defer close(ended)
				defer cancel()
				leading, end := e.fence.while(ctx)
				defer end()
				failed = e.lead(leading, controller)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	e.fence.elector.Store(elector)
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
		failed = errors.New("lost the Lease: it was not renewed in time, or another replica holds it")
	}
	return failed
}

// ready is nil once the cluster has been read.
func (e *eviction) ready(*http.Request) error {
	for kind, informer := range map[string]cache.SharedIndexInformer{"ResourceClaims": e.claims, "Pods": e.pods} {
		if !informer.HasSynced() {
			return fmt.Errorf("%s are not synced yet", kind)
		}
	}
	return e.evictor.Tracker.Ready()
}
