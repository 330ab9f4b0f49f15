package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// configMetrics tell which configuration is in force.
type configMetrics struct {
	failed  prometheus.Gauge
	loads   *prometheus.CounterVec
	success prometheus.Gauge
	info    *prometheus.GaugeVec

	// said is the error that was logged last.
	said string
}

// newConfigMetrics registers the metrics; reviewer returns the one in force.
func newConfigMetrics(registerer prometheus.Registerer, reviewer func() review.Reviewer) (*configMetrics, error) {
	m := &configMetrics{
		failed: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_steward_config_load_failed",
			Help: "1 while the configuration file is one that was refused; the last good one is in force then."}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dra_steward_config_loads_total",
			Help: "Configurations that were read, by result (success, failure)."}, []string{"result"}),
		success: prometheus.NewGauge(prometheus.GaugeOpts{Name: "dra_steward_config_last_success_timestamp_seconds",
			Help: "When the configuration in force was read."}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dra_steward_config_info",
			Help: "1 for the revision of the configuration in force, the beginning of its SHA-256; empty without a file."}, []string{"revision"}),
	}
	expired := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "dra_steward_config_exemptions_expired",
		Help: "Exemptions of the configuration in force that have expired and do not count."},
		func() float64 { return float64(len(reviewer().Expired(time.Now()))) })
	for _, c := range []prometheus.Collector{m.failed, m.loads, m.success, m.info, expired} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *configMetrics) loaded(revision string, at time.Time) {
	m.failed.Set(0)
	m.loads.WithLabelValues("success").Inc()
	m.success.Set(float64(at.Unix()))
	m.info.Reset()
	m.info.WithLabelValues(revision).Set(1)
	m.said = ""
}

// refused tells whether it is the first time since a good configuration that err is why.
func (m *configMetrics) refused(err error) (first bool) {
	if err.Error() == m.said {
		return false
	}
	m.said = err.Error()
	m.failed.Set(1)
	m.loads.WithLabelValues("failure").Inc()
	return true
}
