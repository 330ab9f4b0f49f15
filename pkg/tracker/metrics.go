package tracker

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what a tracker shows, by driver, and of devices with taints or patched
// values by device. A nil Metrics counts nothing.
type Metrics struct {
	devices, taints, patched, folded    *prometheus.Desc
	deviceTaints, devicePatches, detail *prometheus.Desc
	events                              prometheus.Counter

	mutex   sync.Mutex
	drivers map[string]counts
	// special are the slices with a taint or with a patched device, by name.
	special map[string]*entry
}

// MaxDrivers is how many drivers have series of their own: those with the most devices.
// The others are added up in one with the driver "" (no driver has that name), and
// dra_steward_tracker_folded_drivers says how many they are.
const MaxDrivers = 50

// counts are those of one driver.
type counts struct{ devices, patched, driverTaints, ruleTaints int }

func (c counts) plus(other counts) counts {
	return counts{c.devices + other.devices, c.patched + other.patched, c.driverTaints + other.driverTaints, c.ruleTaints + other.ruleTaints}
}

func (c counts) minus(other counts) counts {
	return counts{c.devices - other.devices, c.patched - other.patched, c.driverTaints - other.driverTaints, c.ruleTaints - other.ruleTaints}
}

func (e *entry) counts() counts {
	c := counts{devices: len(e.published.Spec.Devices)}
	for _, t := range e.tainted {
		c.ruleTaints += int(t.to - t.from)
	}
	for i := range e.published.Spec.Devices {
		c.driverTaints += len(e.published.Spec.Devices[i].Taints)
		for range (Device{e, i}).Patched() {
			c.patched++
			break
		}
	}
	return c
}

// NewMetrics returns metrics that are registered; an error says that their names are
// taken.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		devices: prometheus.NewDesc("dra_steward_tracker_devices",
			"Devices in ResourceSlices, by driver.", []string{"driver"}, nil),
		taints: prometheus.NewDesc("dra_steward_tracker_taints",
			"Taints of devices, by driver and by source: the driver itself, or a DeviceTaintRule.", []string{"driver", "source"}, nil),
		patched: prometheus.NewDesc("dra_steward_tracker_patched_devices",
			"Devices of which a ResourceSlicePatch decides an attribute or a capacity, by driver.", []string{"driver"}, nil),
		folded: prometheus.NewDesc("dra_steward_tracker_folded_drivers",
			"Drivers without series of their own: they are counted with the driver \"\".", nil, nil),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dra_steward_tracker_slice_changes_total",
			Help: "Changes of merged ResourceSlices that event handlers were told of.",
		}),
		drivers: map[string]counts{}, special: map[string]*entry{},
	}
	describeDetail(m)
	for _, collector := range []prometheus.Collector{m, m.events} {
		if err := registerer.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count works in the changes of a batch, of which some are visible.
func (m *Metrics) count(deltas, visible []delta) {
	if m == nil {
		return
	}
	m.events.Add(float64(len(visible)))
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, d := range deltas {
		m.change(d)
		if d.old != nil {
			m.add(d.old.pool().driver, m.drivers[d.old.pool().driver].minus(d.old.counts()))
		}
		if d.new != nil {
			m.add(d.new.pool().driver, m.drivers[d.new.pool().driver].plus(d.new.counts()))
		}
	}
}

func (m *Metrics) add(driver string, c counts) {
	if c == (counts{}) {
		delete(m.drivers, driver)
	} else {
		m.drivers[driver] = c
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.devices, m.taints, m.patched, m.folded, m.deviceTaints, m.devicePatches, m.detail} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	names := slices.SortedFunc(maps.Keys(m.drivers), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.drivers[b].devices, m.drivers[a].devices), cmp.Compare(a, b))
	})
	shown := map[string]counts{}
	for i, name := range names {
		if i >= MaxDrivers {
			name = ""
		}
		shown[name] = shown[name].plus(m.drivers[names[i]])
	}
	gauge := func(description *prometheus.Desc, value int, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(value), labels...)
	}
	for name, c := range shown {
		gauge(m.devices, c.devices, name)
		gauge(m.patched, c.patched, name)
		gauge(m.taints, c.driverTaints, name, string(DriverSource))
		gauge(m.taints, c.ruleTaints, name, string(RuleSource))
	}
	gauge(m.folded, max(0, len(names)-MaxDrivers))
	m.collectDetail(gauge)
}
