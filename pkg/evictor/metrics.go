package evictor

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/serving/metric"
)

// Metrics are those of KEP-5055 under our prefix, and more. Tenants cannot choose the value
// of a label.
type Metrics struct {
	deletions     prometheus.Counter
	latency       prometheus.Histogram
	evictions     *prometheus.CounterVec
	byRule        *prometheus.CounterVec
	cancelled     prometheus.Counter
	decisions     prometheus.Histogram
	statuses      *prometheus.CounterVec
	pending       *prometheus.GaugeVec
	tripped       prometheus.Gauge
	journalFailed prometheus.Gauge
	present       *prometheus.GaugeVec
	tainted       *prometheus.GaugeVec
	drivers       labels
	rules         labels
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	all := metric.For(registerer)
	m := &Metrics{
		deletions: all.Counter("dra_steward_evictor_pod_deletions_total", "Evicted pods."),
		latency: metric.Add(all, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dra_steward_evictor_pod_deletion_duration_seconds",
			Help:    "Time from when the controller could first evict a pod to its deletion.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		})),
		evictions: all.Counters("dra_steward_evictor_evictions_total",
			"Attempts to evict a pod, by driver of the device, by origin of the taint (rule, driver or both), and by result (deleted, gone, error). The first 50 drivers have their own label, the rest is other.", "driver", "reason", "result"),
		byRule: all.Counters("dra_steward_evictor_rule_evictions_total",
			"Attempts to evict a pod for a DeviceTaintRule, by name of the rule while it exists and by result (deleted, gone, error). The first 50 rules with evictions have their own label, the rest is _other.", "rule", "result"),
		cancelled: all.Counter("dra_steward_evictor_evictions_cancelled_total",
			"Cancelled evictions: the taint was removed, or is tolerated now."),
		decisions: metric.Add(all, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dra_steward_evictor_decision_seconds",
			Help:    "Time to decide about one pod.",
			Buckets: prometheus.ExponentialBuckets(0.000001, 4, 10),
		})),
		statuses: all.Counters("dra_steward_evictor_rule_status_writes_total",
			"Writes of the status of DeviceTaintRules, by result (written, failed).", "result"),
	}
	m.addGauges(all)
	return m, all.Err()
}

func (m *Metrics) addGauges(all *metric.Registrar) {
	m.pending = all.Gauges("dra_steward_evictor_pods",
		"Pods with an untolerated NoExecute taint, by state: planned for eviction, paused by the circuit breaker, held because the taint is older than the first start, or only observed.", "state")
	m.tripped = all.Gauge("dra_steward_evictor_paused_causes",
		"DeviceTaintRules and drivers whose evictions the circuit breaker has paused.")
	m.journalFailed = all.Gauge("dra_steward_evictor_journal_failed",
		"1 while the active controller cannot read or write the eviction journal; no pod is evicted until it can.")
	m.tainted = all.Gauges("dra_steward_evictor_driver_devices",
		"Devices in ResourceSlices, by driver (the first 50): all published ones, and those to which the driver gives a NoExecute taint.", "driver", "state")
	m.present = all.Gauges("dra_steward_evictor_in_tree_controller",
		"Detected state of the in-tree eviction controller, by source of taints (slices, rules): 1 for the current one of unknown, present and absent. Only in mode auto.", "source", "presence")
}

// journal records whether the journal can be read and written.
func (m *Metrics) journal(err error) {
	switch {
	case m == nil:
	case err != nil:
		m.journalFailed.Set(1)
	default:
		m.journalFailed.Set(0)
	}
}

// mostNames bounds the labels driver and rule, whose values authors of slices and rules
// choose.
const mostNames = 50

// other is the label of further drivers, otherRules that of further rules, which is not a
// valid name.
const (
	other      = "other"
	otherRules = "_other"
)

// evicted counts an attempt to evict a pod, once for each driver.
func (m *Metrics) evicted(v Verdict, result string) {
	if m == nil {
		return
	}
	reason := "rule"
	switch {
	case len(v.rules()) == 0:
		reason = "driver"
	case fromDriver(v):
		reason = "both"
	}
	drivers := map[string]bool{}
	for _, r := range v.Reasons {
		drivers[r.Device.Driver] = true
	}
	for driver := range drivers {
		m.evictions.WithLabelValues(m.drivers.label(driver, other), reason, result).Inc()
	}
	for _, rule := range v.rules() {
		m.byRule.WithLabelValues(m.rules.label(rule.Name, otherRules), result).Inc()
	}
	if result == string(deleted) {
		m.deletions.Inc()
	}
}

func fromDriver(v Verdict) bool {
	// Reasons of rules come first.
	return v.Evict() && !v.Reasons[len(v.Reasons)-1].Taint.FromRule()
}

// devices sets the number of devices of a driver.
func (m *Metrics) devices(driver string, d driverCount) {
	if m == nil {
		return
	}
	if driver = m.drivers.label(driver, other); driver != other {
		m.tainted.WithLabelValues(driver, "published").Set(float64(d.published))
		m.tainted.WithLabelValues(driver, "tainted").Set(float64(d.tainted))
	}
}

// took observes the latency of an eviction.
func (m *Metrics) took(after time.Duration) {
	if m != nil {
		m.latency.Observe(max(after, 0).Seconds())
	}
}

// forget drops the series of a deleted rule.
func (m *Metrics) forget(rule string) {
	if m != nil && m.rules.forget(rule) {
		m.byRule.DeletePartialMatch(prometheus.Labels{"rule": rule})
	}
}

// labels are the names with their own label.
type labels struct {
	mutex sync.Mutex
	known map[string]bool
}

func (l *labels) forget(name string) (known bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	known = l.known[name]
	delete(l.known, name)
	return known
}

func (l *labels) label(name, other string) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.known == nil {
		l.known = map[string]bool{}
	}
	if !l.known[name] && len(l.known) >= mostNames {
		return other
	}
	l.known[name] = true
	return name
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

func (m *Metrics) pods(states map[string]int, tripped int) {
	if m == nil {
		return
	}
	for _, state := range []string{"planned", "paused", "held", "observed"} {
		m.pending.WithLabelValues(state).Set(float64(states[state]))
	}
	m.tripped.Set(float64(tripped))
}

func (m *Metrics) inTree(known inTreeState) {
	if m == nil {
		return
	}
	for _, source := range []taintSource{fromSlices, fromRules} {
		for _, presence := range []presence{unknown, present, absent} {
			value := 0.0
			if known.presence(source) == presence {
				value = 1
			}
			m.present.WithLabelValues(source.String(), presence.String()).Set(value)
		}
	}
}
