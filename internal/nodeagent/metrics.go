package nodeagent

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics show the latest Report. Their number is bounded by the devices of one node
// times the containers that share them.
type Metrics struct {
	report atomic.Pointer[Observation]
	calls  func() (sent, rejected int64)
	holder, taint, cdi, findings, up,
	stale, when, sent, rejected *prometheus.Desc
}

// NewMetrics makes the metrics and registers them. calls counts the calls of the
// PodResources API; nil counts none.
func NewMetrics(registerer prometheus.Registerer, calls func() (sent, rejected int64)) (*Metrics, error) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dra_steward_node_"+name, help, labels, nil)
	}
	m := &Metrics{
		calls: calls,
		holder: describe("device_holder_info", "Devices that containers of this node hold, always 1. The container is empty for a claim of the pod as a whole, the pod for one that is gone.",
			"namespace", "pod", "uid", "container", "claim", "request", "driver", "pool", "device", "exactness"),
		taint: describe("device_taint_added_timestamp_seconds", "Taints of devices that containers of this node hold, by when the taint was added, and whether the request tolerates it.",
			"namespace", "pod", "container", "driver", "pool", "device", "key", "effect", "tolerated"),
		cdi: describe("cdi_unresolvable", "CDI ids of containers that the container runtime would not resolve or apply, always 1: the next start of the container fails.",
			"namespace", "pod", "container", "cdi", "reason", "source"),
		findings: describe("findings", "Findings on this node, by kind.", "kind"),
		up:       describe("source_up", "Whether the last read of a source succeeded: podresources, checkpoint, device-plugins, runtime, cdi, api. Disabled sources are omitted.", "source"),
		stale:    describe("stale", "1 while the kubelet has just started and does not list its pods yet; the other metrics are older."),
		when:     describe("look_timestamp_seconds", "Time of the last reconcile of this node."),
		sent:     describe("podresources_calls_total", "Calls of the kubelet's PodResources API, retries included."),
		rejected: describe("podresources_rejected_total", "Calls that the kubelet rejected by the rate limit that all its clients share."),
	}
	return m, registerer.Register(m)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.holder, m.taint, m.cdi, m.findings, m.up, m.stale, m.when, m.sent, m.rejected} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if m.calls != nil {
		sent, rejected := m.calls()
		metrics <- prometheus.MustNewConstMetric(m.sent, prometheus.CounterValue, float64(sent))
		metrics <- prometheus.MustNewConstMetric(m.rejected, prometheus.CounterValue, float64(rejected))
	}
	report := m.report.Load()
	if report == nil {
		return
	}
	gauge(m.when, float64(report.At.UnixMilli())/1000)
	gauge(m.stale, map[bool]float64{true: 1}[report.Stale])
	for source, up := range report.Sources {
		gauge(m.up, map[bool]float64{true: 1}[up], source)
	}
	counts := map[string]int{}
	for _, kind := range Kinds() {
		counts[kind.ID] = 0
	}
	once := unique{}
	for _, f := range report.Findings {
		counts[f.Kind]++
		if f.Kind == CDIUnresolvable && once.add(f.Namespace, f.Pod, f.Container, f.CDI, f.Reason, f.Source) {
			gauge(m.cdi, 1, f.Namespace, f.Pod, f.Container, f.CDI, f.Reason, f.Source)
		}
	}
	for kind, n := range counts {
		gauge(m.findings, float64(n), kind)
	}
	m.collectHoldings(report, gauge)
}

func (m *Metrics) collectHoldings(report *Observation, gauge func(*prometheus.Desc, float64, ...string)) {
	once := unique{}
	for _, h := range report.Holdings {
		labels := []string{h.Namespace, h.Pod, string(h.PodUID), h.Container, h.Claim, h.Request, h.Driver, h.Pool, h.Device, string(h.Exactness)}
		if once.add(labels...) {
			gauge(m.holder, 1, labels...)
		}
	}
	taints := unique{}
	for _, t := range report.Taints {
		labels := []string{t.Namespace, t.Pod, t.Container, t.Driver, t.Pool, t.Device, t.Taint.Key, string(t.Taint.Effect), strconv.FormatBool(t.Tolerated)}
		if !taints.add(labels...) {
			continue
		}
		added := 0.0
		if t.Taint.TimeAdded != nil {
			added = float64(t.Taint.TimeAdded.Unix())
		}
		gauge(m.taint, added, labels...)
	}
}

// unique remembers label values: two shares of a device have the same, and a metric
// must not come twice.
type unique map[[10]string]bool

func (u unique) add(labels ...string) bool {
	var key [10]string
	copy(key[:], labels)
	if u[key] {
		return false
	}
	u[key] = true
	return true
}
