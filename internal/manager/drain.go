package manager

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/controllers/devicedrain"
	"github.com/dra-steward/dra-steward/internal/controllers/deviceroll"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/impact"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/kubernetes/servergates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
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
	metrics, err := devicedrain.NewMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = drainRequests, 2*drainRequests
	client, err := ownclient.NewDrainClient(config)
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
	if e.lands, err = e.foresight(); err != nil {
		return err
	}
	e.budgets = e.informers.Policy().V1().PodDisruptionBudgets().Informer()
	e.drains = client.Informer()
	if err := e.rememberBeginnings(); err != nil {
		return err
	}
	options := devicedrain.Options{Drains: sharedDrains{client, e.drains}, Rules: untyped, Client: evictions, Tracker: e.evictor.Tracker, Usage: e.usage,
		TaintRules: e.evictor.Rules, Claims: e.claims, Pods: e.pods, Budgets: e.budgets,
		Thresholds: *o.thresholds(), Settings: drain.Delays{Backoff: o.drainBackoff},
		Metrics: metrics, Logger: log, Foresight: e.lands,
	}
	e.addRecording("devicedrain", ownclient.DrainManager, func(ctx context.Context, recorder record.EventRecorder) error {
		options.UsageSynced, options.Recorder = e.evictor.UsageSynced, recorder
		controller, err := devicedrain.New(options)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	return e.budgets.SetTransform(usage.Trim)
}

// sharedDrains are the drains with one informer for all controllers. The drain controller runs it.
type sharedDrains struct {
	*ownclient.DrainClient
	informer cache.SharedIndexInformer
}

func (s sharedDrains) Informer() cache.SharedIndexInformer { return s.informer }

// rememberBeginnings remembers the evictions that began, as the guard of the webhook does.
func (e *eviction) rememberBeginnings() error {
	e.beginnings = &impact.Estimator{Index: e.usage, Published: func() iter.Seq[*resourceapi.ResourceSlice] { return e.evictor.Tracker.Snapshot().PublishedSlices() }}
	for _, informer := range []cache.SharedIndexInformer{e.evictor.Rules, e.drains} {
		handler, err := e.beginnings.Follow(informer)
		if err != nil {
			return err
		}
		if informer == e.drains { // the rules may not be served; where they are, the tracker waits for them
			e.begunSynced = append(e.begunSynced, handler.HasSyncedChecker())
		}
	}
	return nil
}

// foresight finds out which pods of a drain do not land again, with the informers of the
// eviction; it is nil if it is off.
func (e *eviction) foresight() (drain.Foresight, error) {
	if !e.options.drainForesight {
		return nil, nil
	}
	if _, err := e.nodes(); err != nil {
		return nil, err
	}
	if err := e.informers.Resource().V1().ResourceClaimTemplates().Informer().SetTransform(placement.Keep); err != nil {
		return nil, err
	}
	e.watchGates()
	found, checkers := impact.NewForesight(e.informers, devicesOfCluster{e}, impact.ListGroups(e.client.SchedulingV1beta1().RESTClient()))
	checkers = append(checkers, e.gates)
	return func(ctx context.Context, d *v1alpha1.DeviceDrain, devices []usage.DeviceID) *guard.Stranded {
		for _, checker := range checkers {
			if !cache.IsDone(checker) {
				return &guard.Stranded{NotComputed: checker.Name() + " is not read yet"}
			}
		}
		return found.Stranded(ctx, d, devices)
	}, nil
}

// devicesOfCluster is what foresight needs of the devices.
type devicesOfCluster struct{ *eviction }

func (d devicesOfCluster) Snapshot() *tracker.Snapshot { return d.evictor.Tracker.Snapshot() }

// Minor asks the API server, once for each answer: a control plane is upgraded while the
// controller runs.
func (d devicesOfCluster) Minor() int {
	info, err := d.client.Discovery().ServerVersion()
	if err != nil {
		return 0
	}
	version, err := utilversion.ParseGeneric(info.GitVersion)
	if err != nil || version.Major() != 1 {
		return 0
	}
	return int(version.Minor())
}

// Gates are the feature gates of a cluster of that minor version.
func (d devicesOfCluster) Gates(minor int) gates.Gates { return d.gates.Gates(minor) }

// watchGates also reads the feature gates of the API server.
func (e *eviction) watchGates() {
	if e.gates != nil {
		return
	}
	e.gates = servergates.NewWatch(e.client.Discovery().RESTClient(), devicesOfCluster{e}.Minor, e.log)
	e.add("gates", func(ctx context.Context) error {
		e.gates.Run(ctx)
		return nil
	})
}

// rollRequests are the requests per second of rolls.
const rollRequests = 20

// addRolls lets the leader carry out DeviceRolls, if the options ask for it, with the informer of
// drains.
func (o Options) addRolls(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if !o.rolls {
		return nil
	}
	if !o.drains {
		return errors.New("--rolls: needs --drains, which drains the devices")
	}
	metrics, err := deviceroll.NewMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = rollRequests, 2*rollRequests
	client, err := ownclient.NewRollClient(config)
	if err != nil {
		return err
	}
	nodes, err := e.nodes()
	if err != nil {
		return err
	}
	rolls := client.Informer()
	options := deviceroll.Options{
		API: client, Rolls: rolls, Nodes: nodes, Drains: e.drains, Tracker: e.evictor.Tracker,
		Usage: e.usage, Beginnings: e.beginnings, Window: o.breakerWindow,
		Thresholds: *o.thresholds(), Metrics: metrics, Logger: log, Foresight: e.lands,
	}
	e.addRecording("deviceroll", ownclient.RollManager, func(ctx context.Context, recorder record.EventRecorder) error {
		options.UsageSynced, options.Recorder = slices.Concat(e.evictor.UsageSynced, e.begunSynced), recorder
		controller, err := deviceroll.New(options)
		if err != nil {
			return err
		}
		return controller.Run(ctx)
	})
	return rolls.SetTransform(withoutManagedFields)
}
