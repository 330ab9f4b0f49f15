package capacitymetrics

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
)

// maxRows bounds the drivers and the classes: their names are chosen by others.
const maxRows = 100

// Metrics show the last count. Without one there are none.
type Metrics struct {
	devices, classDevices, fits, omitted, success, duration *prometheus.Desc

	last atomic.Pointer[counted]
}

// counted is one count.
type counted struct {
	capacity.Summary
	at   time.Time
	took time.Duration
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const states = "held, allocatable, tainted, patched_away, excluded (by shared counters) or unreachable (pool incomplete, node not ready)"
	m := &Metrics{
		devices: prometheus.NewDesc("dra_steward_capacity_devices",
			"Devices in ResourceSlices, by driver and state: "+states+". Drivers beyond the 100 with the most devices have the label \"\". From the leader, with --capacity-metrics.",
			[]string{"driver", "state"}, nil),
		classDevices: prometheus.NewDesc("dra_steward_capacity_class_devices",
			"Devices that a DeviceClass selects, by class and state: "+states+". A device can be in several classes. Only the 100 oldest classes.",
			[]string{"class", "state"}, nil),
		fits: prometheus.NewDesc("dra_steward_capacity_fits",
			"How many claims for 1, 2, 4 or 8 devices of a DeviceClass fit now, each on one node; an upper bound, as in \"dra-steward capacity\". +Inf if shares consume no capacity. Only the 100 oldest classes.",
			[]string{"class", "devices"}, nil),
		omitted: prometheus.NewDesc("dra_steward_capacity_classes_omitted",
			"DeviceClasses without these metrics: there are more than 100, or classes and devices make more than 4 million pairs.", nil, nil),
		success: prometheus.NewDesc("dra_steward_capacity_last_success_timestamp_seconds",
			"When the devices were counted last; the other capacity metrics are of that time. They are counted once a minute.", nil, nil),
		duration: prometheus.NewDesc("dra_steward_capacity_duration_seconds",
			"Duration of the last count of devices. Counting uses at most a twentieth of the time of one core.", nil, nil),
	}
	return m, registerer.Register(m)
}

func (m *Metrics) set(c *counted) { m.last.Store(c) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.devices, m.classDevices, m.fits, m.omitted, m.success, m.duration} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	last := m.last.Load()
	if last == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, row := range last.Drivers {
		for state, label := range states() {
			gauge(m.devices, float64(row.In(state)), row.Name, label)
		}
	}
	for _, row := range last.Classes {
		for state, label := range states() {
			gauge(m.classDevices, float64(row.In(state)), row.Name, label)
		}
		for _, fit := range row.Fits {
			n := float64(fit.Claims)
			if fit.Unlimited {
				n = math.Inf(1)
			}
			gauge(m.fits, n, row.Name, strconv.Itoa(fit.Devices))
		}
	}
	gauge(m.omitted, float64(last.Omitted))
	gauge(m.success, float64(last.at.UnixMilli())/1000)
	gauge(m.duration, last.took.Seconds())
}

// states are the labels of states. No device is unknown: the controller reads all claims.
func states() map[capacity.State]string {
	return map[capacity.State]string{
		capacity.Held: "held", capacity.Allocatable: "allocatable", capacity.Tainted: "tainted",
		capacity.PatchedAway: "patched_away", capacity.Excluded: "excluded", capacity.Unreachable: "unreachable",
	}
}
