package evictor

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of KEP-5055 under our prefix, and what they leave open. No label
// takes a value that a tenant can choose.
type Metrics struct {
	deletions prometheus.Counter
	latency   prometheus.Histogram
	evictions *prometheus.CounterVec
	byRule    *prometheus.CounterVec
	cancelled prometheus.Counter
	decisions prometheus.Histogram
	statuses  *prometheus.CounterVec
	pending   *prometheus.GaugeVec
	broken    prometheus.Gauge
	present   *prometheus.GaugeVec
	tainted   *prometheus.GaugeVec
	drivers   labels
	rules     labels
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		deletions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dra_steward_evictor_pod_deletions_total",
			Help: "Pods that were evicted.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dra_steward_evictor_pod_deletion_duration_seconds",
			Help:    "Time from when a pod was due, and known to be, to its deletion.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_evictor_evictions_total",
			Help: "Attempts to evict a pod, by the driver of the device, by what tainted it (rule, driver, or both), and by result (deleted, gone, error). From the 50th driver on it is other.",
		}, []string{"driver", "reason", "result"}),
		byRule: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dra_steward_evictor_rule_evictions_total",
			Help: "Attempts to evict a pod for a DeviceTaintRule, by its name while it exists and by result (deleted, gone, error). Of the rules that have evicted the first 50 have a name of their own, the others are _other.",
		}, []string{"rule", "result"}),
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
	}
	m.addGauges()
	for _, c := range []prometheus.Collector{m.deletions, m.latency, m.evictions, m.byRule, m.cancelled, m.decisions, m.statuses, m.pending, m.broken, m.present, m.tainted} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) addGauges() {
	m.pending = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dra_steward_evictor_pods",
		Help: "Pods with an untolerated NoExecute taint: planned for eviction by us, paused by the circuit breaker, held since the taint is older than the first start, or only observed.",
	}, []string{"state"})
	m.broken = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dra_steward_evictor_paused_causes",
		Help: "DeviceTaintRules and drivers whose evictions the circuit breaker has paused.",
	})
	m.tainted = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dra_steward_evictor_driver_devices",
		Help: "Devices in ResourceSlices, by driver (the first 50): all that are published, and those with a NoExecute taint of the driver.",
	}, []string{"driver", "state"})
	m.present = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dra_steward_evictor_in_tree_controller",
		Help: "1 for what is known of the controller in kube-controller-manager: unknown, present or absent for taints from slices and from rules. Only in the mode auto.",
	}, []string{"source", "presence"})
}

// mostNames bounds the labels driver and rule: tenants do not choose them, but who
// publishes slices or writes rules does.
const mostNames = 50

// other is the label of all further drivers, otherRules that of rules: none has this name.
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
	case len(v.Rules()) == 0:
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
	for _, rule := range v.Rules() {
		m.byRule.WithLabelValues(m.rules.label(rule.Name, otherRules), result).Inc()
	}
	if result == string(deleted) {
		m.deletions.Inc()
	}
}

func fromDriver(v Verdict) bool {
	// Those of rules come first.
	return v.Evict() && !v.Reasons[len(v.Reasons)-1].Taint.FromRule()
}

// devices notes how many devices a driver has.
func (m *Metrics) devices(driver string, d driverCount) {
	if m == nil {
		return
	}
	if driver = m.drivers.label(driver, other); driver != other {
		m.tainted.WithLabelValues(driver, "published").Set(float64(d.published))
		m.tainted.WithLabelValues(driver, "tainted").Set(float64(d.tainted))
	}
}

// took notes how long after it was due a pod was deleted.
func (m *Metrics) took(after time.Duration) {
	if m != nil {
		m.latency.Observe(max(after, 0).Seconds())
	}
}

// forget drops what was counted for a rule that is gone.
func (m *Metrics) forget(rule string) {
	if m != nil && m.rules.forget(rule) {
		m.byRule.DeletePartialMatch(prometheus.Labels{"rule": rule})
	}
}

// labels are the names that have a label of their own.
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

func (m *Metrics) pods(states map[string]int, broken int) {
	if m == nil {
		return
	}
	for _, state := range []string{"planned", "paused", "held", "observed"} {
		m.pending.WithLabelValues(state).Set(float64(states[state]))
	}
	m.broken.Set(float64(broken))
}

func (m *Metrics) inTree(known Coexistence) {
	if m == nil {
		return
	}
	for _, source := range []Source{SliceSource, RuleSource} {
		for _, presence := range []Presence{Unknown, Present, Absent} {
			value := 0.0
			if known.Presence(source) == presence {
				value = 1
			}
			m.present.WithLabelValues(source.String(), presence.String()).Set(value)
		}
	}
}
