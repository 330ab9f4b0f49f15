package evictor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of KEP-5055 under our prefix, and what they leave open. No label
// takes a value that a tenant can choose.
type Metrics struct {
	deletions *prometheus.CounterVec
	latency   prometheus.Histogram
	failures  *prometheus.CounterVec
	cancelled prometheus.Counter
	decisions prometheus.Histogram
	statuses  *prometheus.CounterVec
	pending   *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		deletions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_evictor_pod_deletions_total",
			Help: "Pods that were evicted, by what tainted the device (rule, driver, or both).",
		}, []string{"source"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dra_steward_evictor_pod_deletion_duration_seconds",
			Help:    "Time from when a pod was due, and known to be, to its deletion.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_evictor_evictions_failed_total",
			Help: "Attempts that did not delete a pod: it was gone, or an error is tried again.",
		}, []string{"result"}),
		cancelled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dra_steward_evictor_evictions_cancelled_total",
			Help: "Evictions that were planned and are no longer necessary.",
		}),
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dra_steward_evictor_decision_seconds",
			Help:    "Time to decide about one pod.",
			Buckets: prometheus.ExponentialBuckets(0.000001, 4, 10),
		}),
		statuses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_evictor_rule_status_writes_total",
			Help: "Writes of the status of DeviceTaintRules, by result.",
		}, []string{"result"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dra_steward_evictor_pods",
			Help: "Pods with an untolerated NoExecute taint: planned for eviction by us, or only observed.",
		}, []string{"state"}),
	}
	for _, c := range []prometheus.Collector{m.deletions, m.latency, m.failures, m.cancelled, m.decisions, m.statuses, m.pending} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// evicted counts a pod that was due and has been deleted.
func (m *Metrics) evicted(plan Verdict, after time.Duration) {
	if m == nil {
		return
	}
	source := "rule"
	switch {
	case len(plan.Rules()) == 0:
		source = "driver"
	case fromDriver(plan):
		source = "both"
	}
	m.deletions.WithLabelValues(source).Inc()
	m.latency.Observe(max(after, 0).Seconds())
}

func (m *Metrics) failed(result string) {
	if m != nil {
		m.failures.WithLabelValues(result).Inc()
	}
}

func (m *Metrics) cancel() {
	if m != nil {
		m.cancelled.Inc()
	}
}

func (m *Metrics) decided(took time.Duration) {
	if m != nil {
		m.decisions.Observe(took.Seconds())
	}
}

func (m *Metrics) wroteStatus(err error) {
	if m == nil {
		return
	}
	result := "written"
	if err != nil {
		result = "failed"
	}
	m.statuses.WithLabelValues(result).Inc()
}

func (m *Metrics) pods(planned, observed int) {
	if m != nil {
		m.pending.WithLabelValues("planned").Set(float64(planned))
		m.pending.WithLabelValues("observed").Set(float64(observed))
	}
}
