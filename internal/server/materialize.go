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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/tracker"
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
func (o serveOptions) merger(clusterView *ClusterView, registry *prometheus.Registry, log logr.Logger) (*slicemerge.Merger, error) {
	mode := slicemerge.Mode(o.patches)
	if err := mode.Validate(); err != nil {
		return nil, err
	}
	metrics, err := slicemerge.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	if clusterView == nil {
		if mode == slicemerge.Materialize {
			return nil, errors.New("--patches materialize needs --live-data")
		}
		return slicemerge.NewMerger(mode, slicemerge.Patches{}, nil, metrics, log), nil
	}
	pools := &slicemerge.PoolOriginals{}
	pending, definition := &pendingSync{}, &patchDefinition{view: clusterView, log: log}
	merger := slicemerge.NewMerger(mode, slicemerge.Patches{
		All: clusterView.Patches, Class: clusterView.Class,
		Known: func() bool {
			return (clusterView.patches.Informer.HasSynced() || definition.gone.Load()) && pending.err() == nil
		},
	}, pools, metrics, log)
	clusterView.tracked.AddEventHandler(pools.Handler(clusterView.tracked, time.Now))
	clusterView.runnables = append(clusterView.runnables, func(ctx context.Context) { pools.Run(ctx, clusterView.tracked) })
	clusterView.also = pending.err
	if mode == slicemerge.Materialize {
		clusterView.runnables = append(clusterView.runnables, definition.run)
	}
	if merger.Active() {
		if err := o.remember(clusterView, merger, pools, pending, log); err != nil {
			return nil, err
		}
	}
	_, err = clusterView.patches.Informer.AddEventHandler(merger.Handler())
	return merger, err
}

// A patchDefinition is the CustomResourceDefinition of ResourceSlicePatch, asked for while patches cannot be read because the API
// server does not serve them. Each patch goes with it, so that without it there are none.
type patchDefinition struct {
	view *ClusterView
	log  logr.Logger
	// gone is true while it does not exist.
	gone atomic.Bool
}

// absence is how long patches are not served before it is asked whether their definition exists, and how often: one of several API
// servers, or a proxy, can answer so for a moment, and does while a definition is established.
const absence = 10 * time.Second

// run asks until patches have been read, or ctx ends.
func (p *patchDefinition) run(ctx context.Context) {
	ticker := time.NewTicker(absence)
	defer ticker.Stop()
	for !p.view.patches.Informer.HasSynced() {
		p.ask(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *patchDefinition) ask(ctx context.Context) {
	const name = v1alpha1.ResourceSlicePatchResource + "." + v1alpha1.Group
	gone := false
	if c := p.view.patches.Condition(); c.Reason == tracker.ReasonNotInstalled && time.Since(c.Since) >= absence {
		err := p.view.rest.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", name).Do(ctx).Error()
		if gone = apierrors.IsNotFound(err); err != nil && !gone && ctx.Err() == nil {
			p.log.Error(err, "Cannot read whether ResourceSlicePatches can exist; slices keep the values that they have", "customResourceDefinition", name)
		}
	}
	if p.gone.Swap(gone) != gone && gone {
		p.log.Info("There are no ResourceSlicePatches; slices get back the values of their drivers", "customResourceDefinition", name)
	}
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
func (o serveOptions) remember(clusterView *ClusterView, merger *slicemerge.Merger, pools *slicemerge.PoolOriginals, pending *pendingSync, log logr.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 50, 2*slicemerge.RecordConfigMaps
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
	if slicemerge.Mode(o.patches) != slicemerge.Materialize {
		return nil
	}
	elsewhere, err := slicemerge.NewElsewhere(config)
	if err != nil {
		return err
	}
	pending.left.Add(1)
	clusterView.runnables = append(clusterView.runnables, func(ctx context.Context) {
		merger.Follow(ctx, elsewhere, sync.OnceFunc(func() { pending.left.Add(-1) }))
	})
	return nil
}
