package manager

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/internal/controllers/drain"
)

// drainRequests are the requests per second of drains: the fastest evicts 100 pods.
const drainRequests = 300

// addDrains lets the leader carry out DeviceDrains, with clients of its own, so that
// neither waits for other evictions.
func (o Options) addDrains(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if !o.drains {
		return nil
	}
	if o.drainBackoff < 0 {
		return fmt.Errorf("--drain-backoff %s: must be positive, or 0 for 5m", o.drainBackoff)
	}
	metrics, err := drain.NewMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = drainRequests, 2*drainRequests
	client, err := drain.NewClient(config)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for DeviceTaintRules: %w", err)
	}
	evictions, err := clientFor(config, drainRequests)
	if err != nil {
		return fmt.Errorf("client for evictions: %w", err)
	}
	foresight, err := e.foresight()
	if err != nil {
		return err
	}
	e.budgets = e.informers.Policy().V1().PodDisruptionBudgets().Informer()
	e.drains = client.Informer()
	options := drain.Options{Drains: sharedDrains{client, e.drains}, Rules: untyped, Client: evictions, Tracker: e.evictor.Tracker, Usage: e.usage,
		TaintRules: e.evictor.Rules, Claims: e.claims, Pods: e.pods, Budgets: e.budgets,
		Thresholds: *o.thresholds(), Settings: drain.Delays{Backoff: o.drainBackoff},
		Metrics: metrics, Logger: log, Foresight: foresight,
	}
	e.add("drain", func(ctx context.Context) error {
		options.UsageSynced = e.evictor.UsageSynced
		broadcaster := e.broadcaster(ctx)
		defer broadcaster.Shutdown()
		options.Recorder = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: drain.FieldManager})
		controller, err := drain.New(options)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	return e.budgets.SetTransform(withoutManagedFields)
}

// sharedDrains are the drains with one informer for all controllers. The drain controller runs it.
type sharedDrains struct {
	*drain.Client
	informer cache.SharedIndexInformer
}

func (s sharedDrains) Informer() cache.SharedIndexInformer { return s.informer }

// broadcaster sends events about drains and reactions to the API server until it is shut down.
func (e *eviction) broadcaster(ctx context.Context) record.EventBroadcaster {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&coreclient.EventSinkImpl{Interface: e.quiet.CoreV1().Events("")})
	return broadcaster
}
