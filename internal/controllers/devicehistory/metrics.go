package devicehistory

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/history"
)

// Metrics count records and writes.
type Metrics struct {
	devices, leftOut prometheus.Gauge
	writes           *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		devices: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_steward_history_devices", Help: "Devices with a history: those that had a taint, a drain or a reaction within 30 days."}),
		leftOut: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_steward_history_left_out_devices", Help: "Devices whose history was left out within 30 days, because there is room for 10 MB."}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_history_writes_total",
			Help: "Writes of ConfigMaps with the history of devices, by result (written, failed).",
		}, []string{"result"}),
	}
	for _, collector := range []prometheus.Collector{m.devices, m.leftOut, m.writes} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) wrote(err error) {
	if m == nil {
		return
	}
	result := "written"
	if err != nil {
		result = "failed"
	}
	m.writes.WithLabelValues(result).Inc()
}

func (m *Metrics) state(l *history.Store) {
	if m == nil {
		return
	}
	m.devices.Set(float64(l.Len()))
	m.leftOut.Set(float64(l.Cut().Devices))
}
