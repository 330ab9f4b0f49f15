package manager

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/controllers/patchstatus"
)

// addPatchStatus lets the leader write the statuses of ResourceSlicePatches, with a
// client of its own, so that no eviction waits for it. Who looks on without being the
// leader writes none.
func (o Options) addPatchStatus(e *eviction, config *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	if !o.patchStatus || !o.leaderElect {
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

// written says how far patches are written into slices; nil where that is not done.
func (e *eviction) written() func() (any, func(string) patchstatus.Written) {
	if e.resyncer == nil {
		return nil
	}
	return func() (any, func(string) patchstatus.Written) {
		state := e.resyncer.State()
		return state, func(name string) patchstatus.Written { return patchstatus.Written(state.Patch(name)) }
	}
}
