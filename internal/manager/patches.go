package manager

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/controllers/patchstatus"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// addMaterialize lets the leader touch the slices that are not what patches make of them,
// if the options say so.
func (o Options) addMaterialize(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	mode := slicemerge.Mode(o.patches)
	if mode != slicemerge.Materialize && mode != slicemerge.Restore {
		return mode.Validate()
	}
	metrics, err := materialize.NewResyncMetrics(registry)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 200, 400
	touch, err := materialize.NewTouch(config)
	if err != nil {
		return err
	}
	elsewhere, err := slicemerge.NewElsewhere(config)
	if err != nil {
		return err
	}
	pools, view := &slicemerge.PoolOriginals{}, e.evictor.Tracker
	view.AddEventHandler(pools.Handler(view, time.Now))
	e.resyncer = materialize.NewResyncer(materialize.ResyncOptions{
		View: view, Mode: mode, Touch: touch, Elsewhere: elsewhere, Acceptable: review.AcceptableSlice, PoolOriginals: pools,
		Interval: o.patchDelay, Delay: o.patchDelay, PoolsPerSecond: o.poolsPerSecond, Metrics: metrics, Logger: log,
	})
	e.add("materialize", e.resyncer.Run)
	e.add("materialize", func(ctx context.Context) error {
		pools.Run(ctx, view)
		return nil
	})
	if o.patchRecords == "" {
		return nil
	}
	recorder := &materialize.Recorder{Client: e.quiet.CoreV1().ConfigMaps(o.namespace), Prefix: o.patchRecords, PoolOriginals: pools, View: view, Metrics: metrics, Logger: log}
	e.add("materialize", recorder.Run)
	return nil
}

func (o *Options) patchFlags(f *pflag.FlagSet) {
	f.StringVar(&o.patchRecords, "patch-records", "", "with --patches, prefix of the ConfigMaps that record the original values of drivers; empty: in memory only")
	cmdutil.DurationVar(f, &o.patchDelay, "patch-delay", materialize.DefaultDelay, "how long a slice may differ from the result of patches before it is updated: replicas of the webhook also need to observe a patch")
	cmdutil.DurationVar(f, &o.statusGap, "patch-status-gap", patchstatus.DefaultGap, "minimum time between two status writes for one generation of a ResourceSlicePatch")
}

// RecordsPrefix is how the names of the ConfigMaps begin in which the chart lets a controller
// keep what drivers said.
func RecordsPrefix(controller string) string { return controller + "-patches" }

// addPatchStatus lets the leader write the statuses of ResourceSlicePatches, with a
// client of its own, so that no eviction waits for it. A controller that only observes, without
// a Lease, writes none.
func (o Options) addPatchStatus(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if !o.patchStatus || o.onlyObserves() {
		return nil
	}
	metrics, err := patchstatus.NewMetrics(registry)
	if err != nil {
		return err
	}
	client, err := patchstatus.NewClient(config)
	if err != nil {
		return err
	}
	writer := patchstatus.New(patchstatus.Options{View: e.evictor.Tracker, Client: client, Written: e.written(), Gap: o.statusGap, Metrics: metrics, Logger: log})
	e.add("patchstatus", writer.Run)
	return nil
}

// written says how far the patches of a view are written into its slices; nil where that is not done.
func (e *eviction) written() func() (any, *tracker.Snapshot, func(string) patchstatus.Written) {
	if e.resyncer == nil {
		return nil
	}
	return func() (any, *tracker.Snapshot, func(string) patchstatus.Written) {
		state := e.resyncer.State()
		if state == nil {
			return nil, nil, nil
		}
		return state, state.View, func(name string) patchstatus.Written { return patchstatus.Written(state.Patch(name)) }
	}
}
