package app

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/materializer"
)

// furnish gives a site what counts and what merges.
func (o serveOptions) furnish(site *configured, world *informed, registry *prometheus.Registry, log logr.Logger) (err error) {
	if err := o.count(site, world); err != nil {
		return err
	}
	merger, err := o.merger(world, registry, log)
	site.slices = merger
	return err
}

// merger writes ResourceSlicePatches into slices at admission, as far as --patches says;
// without that it restores slices that hold some still.
func (o serveOptions) merger(world *informed, registry *prometheus.Registry, log logr.Logger) (*materializer.Merger, error) {
	mode := materializer.Mode(o.patches)
	if err := mode.Validate(); err != nil {
		return nil, err
	}
	metrics, err := materializer.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	if world == nil {
		if mode == materializer.Materialize {
			return nil, errors.New("--patches materialize needs --live-data, which reads them")
		}
		return materializer.NewMerger(mode, materializer.Patches{}, nil, metrics, log), nil
	}
	ledgers := &materializer.Ledgers{}
	merger := materializer.NewMerger(mode, materializer.Patches{All: world.Patches, Known: world.patches.Informer.HasSynced, Class: world.Class}, ledgers, metrics, log)
	world.tracked.AddEventHandler(ledgers.Handler(time.Now))
	_, err = world.patches.Informer.AddEventHandler(merger.Handler())
	return merger, err
}
