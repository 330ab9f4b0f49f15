package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
)

// furnish gives a site what counts and what merges.
func (o serveOptions) furnish(site *reloader, clusterView *ClusterView, registry *prometheus.Registry, log logr.Logger) (err error) {
	if err := o.count(site, clusterView); err != nil {
		return err
	}
	merger, err := o.merger(clusterView, registry, log)
	site.slices, site.patchWriter = merger, o.patchWriter
	return err
}

// merger writes ResourceSlicePatches into slices at admission, as far as --patches says;
// without that it restores slices that hold some still.
func (o serveOptions) merger(clusterView *ClusterView, registry *prometheus.Registry, log logr.Logger) (*materialize.Merger, error) {
	mode := materialize.Mode(o.patches)
	if err := mode.Validate(); err != nil {
		return nil, err
	}
	metrics, err := materialize.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	if clusterView == nil {
		if mode == materialize.Materialize {
			return nil, errors.New("--patches materialize needs --live-data")
		}
		return materialize.NewMerger(mode, materialize.Patches{}, nil, metrics, log), nil
	}
	pools := &materialize.PoolOriginals{}
	pending := &pendingSync{}
	merger := materialize.NewMerger(mode, materialize.Patches{
		All: clusterView.Patches, Class: clusterView.Class,
		Known: func() bool { return clusterView.patches.Informer.HasSynced() && pending.err() == nil },
	}, pools, metrics, log)
	clusterView.tracked.AddEventHandler(pools.Handler(clusterView.tracked, time.Now))
	clusterView.runnables = append(clusterView.runnables, func(ctx context.Context) { pools.Run(ctx, clusterView.tracked) })
	clusterView.also = pending.err
	if merger.Active() {
		if err := o.remember(clusterView, merger, pools, pending, log); err != nil {
			return nil, err
		}
	}
	_, err = clusterView.patches.Informer.AddEventHandler(merger.Handler())
	return merger, err
}

// pendingSync counts what has to be known before patches are merged.
type pendingSync struct{ left atomic.Int32 }

func (b *pendingSync) err() error {
	if b.left.Load() > 0 {
		return errors.New("the recorded values of drivers, or the Lease of the scheduler, are not synced yet")
	}
	return nil
}

// remember reads what drivers said of slices that are gone, and asks whether a scheduler
// applies patches.
func (o serveOptions) remember(clusterView *ClusterView, merger *materialize.Merger, pools *materialize.PoolOriginals, pending *pendingSync, log logr.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 2*materialize.RecordConfigMaps
	if namespace, prefix, given := strings.Cut(o.patchRecords, "/"); given {
		client, err := coreclient.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("client for ConfigMaps: %w", err)
		}
		pending.left.Add(1)
		clusterView.runnables = append(clusterView.runnables, func(ctx context.Context) {
			if err := pools.Load(ctx, client.ConfigMaps(namespace), prefix, clusterView.tracked); err != nil && ctx.Err() == nil {
				log.Error(err, "Cannot read the recorded values of drivers")
			}
			pending.left.Add(-1)
		})
	} else if o.patchRecords != "" {
		return fmt.Errorf("--patch-records %q: must be a namespace and a prefix, as in dra-steward/records", o.patchRecords)
	}
	if materialize.Mode(o.patches) != materialize.Materialize {
		return nil
	}
	elsewhere, err := materialize.NewElsewhere(config)
	if err != nil {
		return err
	}
	pending.left.Add(1)
	clusterView.runnables = append(clusterView.runnables, func(ctx context.Context) {
		merger.Follow(ctx, elsewhere, sync.OnceFunc(func() { pending.left.Add(-1) }))
	})
	return nil
}
