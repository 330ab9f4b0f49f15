package patchstatus

import (
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/serving/metric"
)

// Metrics count what a writer writes.
type Metrics struct{ writes, events *prometheus.CounterVec }

// NewMetrics registers the metrics. It fails if their names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		writes: all.Counters("dra_steward_patch_status_writes_total",
			"Writes of the status of ResourceSlicePatches, by result.", "result"),
		events: all.Counters("dra_steward_patch_events_total",
			"Events about ResourceSlicePatches, by result: one for each generation and reason.", "result"),
	}
	return m, all.Err()
}

func (m *Metrics) wroteStatus(err error) {
	if m != nil {
		m.writes.WithLabelValues(result(err)).Inc()
	}
}

func (m *Metrics) createdEvent(err error) {
	if m != nil {
		m.events.WithLabelValues(result(err)).Inc()
	}
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return "superfluous"
	default:
		return "error"
	}
}
