package materialize

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/controllers/materialize/record"
)

// Metrics count what a merger does. A nil one counts nothing.
type Metrics struct{ merges *prometheus.CounterVec }

// NewMetrics registers the metrics. It fails if their names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{merges: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dra_steward_materialize_merges_total",
		Help: "Writes of ResourceSlices into which patches are merged, by result: published, patched, refused (published without patches, because they would exceed a limit) or unreadable (the original values are lost).",
	}, []string{"result"})}
	return m, registerer.Register(m.merges)
}

func (m *Metrics) merged(merged record.Merged, unreadable error) {
	if m == nil {
		return
	}
	result := "published"
	switch {
	case unreadable != nil:
		result = "unreadable"
	case merged.Refused != nil:
		result = "refused"
	case merged.Ledger.Count().InForce > 0:
		result = "patched"
	}
	m.merges.WithLabelValues(result).Inc()
}
