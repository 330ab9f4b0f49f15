package patchstatus

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what a writer writes.
type Metrics struct{ writes, events *prometheus.CounterVec }

// NewMetrics registers the metrics. It fails if their names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_patch_status_writes_total",
			Help: "Writes of the status of ResourceSlicePatches, by result.",
		}, []string{"result"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_patch_events_total",
			Help: "Events about ResourceSlicePatches, by result: one for each generation and reason.",
		}, []string{"result"}),
	}
	for _, c := range []prometheus.Collector{m.writes, m.events} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
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
