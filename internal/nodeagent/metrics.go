package nodeagent

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// maxHolders bounds the series of holders: a device plugin can publish thousands of devices
// that are shares of one.
const maxHolders = 4096

// labelResource adds the devices of device plugins, too: without the resource, their ids
// can be ambiguous.
const labelResource = "resource"

// holderLabels are the labels that a site can add to holders, and their values.
func holderLabels() map[string]func(podresources.Holding) string {
	return map[string]func(podresources.Holding) string{
		"admin_access":    func(h podresources.Holding) string { return strconv.FormatBool(h.AdminAccess) },
		"share_id":        func(h podresources.Holding) string { return string(h.ShareID) },
		labelResource:     func(h podresources.Holding) string { return h.Resource },
		"container_state": func(h podresources.Holding) string { return h.State },
	}
}

// HolderLabels returns the names of the labels that a site can add to holders.
func HolderLabels() []string { return slices.Sorted(maps.Keys(holderLabels())) }

// CheckHolderLabels refuses names that are not those of HolderLabels, and repetitions.
func CheckHolderLabels(names []string) error {
	for i, name := range names {
		if !slices.Contains(HolderLabels(), name) {
			return fmt.Errorf("%q: must be one of %s", name, strings.Join(HolderLabels(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("%q: must not be repeated", name)
		}
	}
	return nil
}

// Metrics show the latest Observation. Their number is bounded by the devices of one node
// times the containers that share them, and by maxHolders.
type Metrics struct {
	MetricsOptions
	report atomic.Pointer[Observation]
	holder, omitted, taint, cdi, findings, up,
	stale, when, bytes, sent, rejected *prometheus.Desc
}

// MetricsOptions are what Metrics show in addition to an Observation.
type MetricsOptions struct {
	// Calls counts the calls of the PodResources API; nil counts none.
	Calls func() (sent, rejected int64)
	// HolderLabels are labels of HolderLabels, and Attributes names of attributes, that the
	// series of holders have in addition.
	HolderLabels, Attributes []string
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer, o MetricsOptions) (*Metrics, error) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("dra_steward_node_"+name, help, labels, nil)
	}
	holder := slices.Concat([]string{"namespace", "pod", "uid", "container", "claim", "request", "driver", "pool", "device", "exactness"}, o.HolderLabels)
	for _, name := range o.Attributes {
		holder = append(holder, attributeLabel(name))
	}
	m := &Metrics{
		MetricsOptions: o,
		holder:         describe("device_holder_info", "Devices that containers of this node hold, always 1. The container is empty for a device of the pod as a whole, the pod for one that is gone.", holder...),
		omitted:        describe("device_holders_omitted", "Holders of devices without a series, because this node has more than 4096."),
		taint: describe("device_taint_added_timestamp_seconds", "Taints of devices that containers of this node hold, by when the taint was added, and whether the request tolerates it.",
			"namespace", "pod", "container", "driver", "pool", "device", "key", "effect", "tolerated"),
		cdi: describe("cdi_unresolvable", "CDI ids of containers that the container runtime would not resolve or apply, always 1: the next start of the container fails.",
			"namespace", "pod", "container", "cdi", "reason", "source"),
		findings: describe("findings", "Findings on this node, by kind. Kinds that only the kubelet's checkpoint shows are left out while it is off or cannot be read.", "kind"),
		up:       describe("source_up", "Whether the last read of a source succeeded: podresources, checkpoint, device-plugins, runtime, cdi, api. Disabled sources are omitted.", "source"),
		stale:    describe("stale", "1 while the kubelet has just started and does not list its pods yet; the other metrics are older."),
		when:     describe("look_timestamp_seconds", "Time of the last reconcile of this node."),
		bytes:    describe("podresources_bytes", "Size of the kubelet's last PodResources answer, about all pods. Clients with the default limit of gRPC read at most 4194304 bytes, the agent 33554432: 33554433 means more."),
		sent:     describe("podresources_calls_total", "Calls of the kubelet's PodResources API, retries included."),
		rejected: describe("podresources_rejected_total", "Calls that the kubelet rejected by the rate limit that all its clients share."),
	}
	return m, registerer.Register(m)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.holder, m.omitted, m.taint, m.cdi, m.findings, m.up, m.stale, m.when, m.bytes, m.sent, m.rejected} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if m.Calls != nil {
		sent, rejected := m.Calls()
		metrics <- prometheus.MustNewConstMetric(m.sent, prometheus.CounterValue, float64(sent))
		metrics <- prometheus.MustNewConstMetric(m.rejected, prometheus.CounterValue, float64(rejected))
	}
	report := m.report.Load()
	if report == nil {
		return
	}
	gauge(m.when, float64(report.At.UnixMilli())/1000)
	if report.Bytes > 0 {
		gauge(m.bytes, float64(report.Bytes))
	}
	gauge(m.stale, map[bool]float64{true: 1}[report.Stale])
	for source, up := range report.Sources {
		gauge(m.up, map[bool]float64{true: 1}[up], source)
	}
	counts := map[string]int{}
	for _, kind := range Kinds() {
		if report.Sources["checkpoint"] || !ofCheckpoint(kind.ID) {
			counts[kind.ID] = 0
		}
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
	once, more, omitted := unique{}, holderLabels(), 0
	for _, h := range report.Holdings {
		if ofPlugin(h) && !slices.Contains(m.HolderLabels, labelResource) {
			continue
		}
		labels := []string{h.Namespace, h.Pod, string(h.PodUID), h.Container, h.Claim, h.Request, h.Driver, h.Pool, h.Device, string(h.Exactness)}
		for _, name := range m.HolderLabels {
			labels = append(labels, more[name](h))
		}
		for _, name := range m.Attributes {
			labels = append(labels, report.Attributes[deviceOf(h)][name])
		}
		switch {
		case len(once) == maxHolders && !once.has(labels...):
			omitted++
		case once.add(labels...):
			gauge(m.holder, 1, labels...)
		}
	}
	gauge(m.omitted, float64(omitted))
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
type unique map[string]bool

// No label of an object has the separator.
func (unique) key(labels []string) string { return strings.Join(labels, "\x00") }

func (u unique) has(labels ...string) bool { return u[u.key(labels)] }

func (u unique) add(labels ...string) bool {
	if u.has(labels...) {
		return false
	}
	u[u.key(labels)] = true
	return true
}
