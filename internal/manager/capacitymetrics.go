package manager

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/capacity"
	"github.com/dra-steward/dra-steward/internal/controllers/capacitymetrics"
	"github.com/dra-steward/dra-steward/internal/gates"
	"github.com/dra-steward/dra-steward/internal/placement"
)

// addCapacityMetrics lets the leader count devices, if the options ask for it. Nodes are read
// for it, and by drains with foresight: one informer has them.
func (o Options) addCapacityMetrics(e *eviction, _ *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	switch {
	case o.capacityPatched && !o.capacityMetrics:
		return errors.New("--capacity-patched: needs --capacity-metrics")
	case !o.capacityMetrics:
		return nil
	}
	metrics, err := capacitymetrics.NewMetrics(registry)
	if err != nil {
		return err
	}
	nodes := e.informers.Core().V1().Nodes().Informer()
	controller := capacitymetrics.New(capacitymetrics.Options{Metrics: metrics, Logger: log,
		Ready: func() error {
			if !nodes.HasSynced() {
				return errors.New("nodes are not synced yet")
			}
			return e.ready(nil)
		},
		Cluster: func() capacity.Cluster { return e.capacity(nodes.GetStore()) },
	})
	e.add("capacitymetrics", controller.Run)
	if err := nodes.SetTransform(keepNode); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	return nil
}

// capacity is the cluster now.
func (e *eviction) capacity(nodes cache.Store) capacity.Cluster {
	devices := devicesOfCluster{e}
	minor := devices.Minor()
	return capacity.Cluster{
		View: devices.Snapshot(), Claims: placement.Stored[*resourceapi.ResourceClaim](e.claims.GetStore()), Nodes: placement.Stored[*corev1.Node](nodes),
		Patched: e.options.capacityPatched, Gates: gates.Defaults(minor), IncompletePools: minor != 0 && minor < 35,
	}
}
