package tracker

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	resourceapi "k8s.io/api/resource/v1"
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

// maxDrivers is how many drivers have series of their own: those with the most devices. The
// others are added up in one with the driver "" (no driver has that name), and
// dra_steward_tracker_folded_drivers is their number.
const maxDrivers = 50

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

// NewMetrics registers the metrics and returns them. It fails if their names are registered
// already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		devices: prometheus.NewDesc("dra_steward_tracker_devices",
			"Devices in ResourceSlices, by driver.", []string{"driver"}, nil),
		taints: prometheus.NewDesc("dra_steward_tracker_taints",
			"Taints of devices, by driver and by source: the driver itself, or a DeviceTaintRule.", []string{"driver", "source"}, nil),
		patched: prometheus.NewDesc("dra_steward_tracker_patched_devices",
			"Devices with an attribute or a capacity from a ResourceSlicePatch, by driver.", []string{"driver"}, nil),
		folded: prometheus.NewDesc("dra_steward_tracker_folded_drivers",
			"Drivers without their own series: they are counted with the driver \"\".", nil, nil),
		events: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dra_steward_tracker_slice_changes_total",
			Help: "Events about merged ResourceSlices that event handlers received.",
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
		if i >= maxDrivers {
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
	gauge(m.folded, max(0, len(names)-maxDrivers))
	m.collectDetail(gauge)
}

// maxDetailSeries bounds the series that name devices. Above it, the devices of a pool are
// added up in one series with the device ""; if those are still too many, the pools of a
// driver with the pool "", and then all drivers. The metric dra_steward_tracker_detail
// reports the level.
const maxDetailSeries = 1000

// A detail is what one series counts: taints by source and effect, or with the source
// PatchSource attributes and capacities that patches decide.
type detail struct {
	driver, pool, device string
	source               string
	effect               resourceapi.DeviceTaintEffect
}

// at is the detail at a level.
func (d detail) at(level string) detail {
	switch level {
	case poolLevel:
		d.device = ""
	case driverLevel:
		d.device, d.pool = "", ""
	case clusterLevel:
		d.device, d.pool, d.driver = "", "", ""
	}
	return d
}

// The levels of detail.
const (
	deviceLevel  = "device"
	poolLevel    = "pool"
	driverLevel  = "driver"
	clusterLevel = "cluster"
)

func levels() []string { return []string{deviceLevel, poolLevel, driverLevel, clusterLevel} }

// details are those of the devices of an entry; nil if nothing is special about them.
func (e *entry) details() (all map[detail]int) {
	add := func(device int, source string, effect resourceapi.DeviceTaintEffect) {
		if all == nil {
			all = map[detail]int{}
		}
		id := e.pool()
		all[detail{id.driver, id.name, e.published.Spec.Devices[device].Name, source, effect}]++
	}
	for i := range e.published.Spec.Devices {
		d := Device{e, i}
		taints, own := d.Merged().Taints, len(d.Published().Taints)
		for t := range taints {
			source := DriverSource
			if t >= own {
				source = RuleSource
			}
			add(i, source, taints[t].Effect)
		}
		for range d.Patched() {
			add(i, PatchSource, "")
		}
	}
	return all
}

// describeDetail are the metrics of details.
func describeDetail(m *Metrics) {
	m.deviceTaints = prometheus.NewDesc("dra_steward_tracker_device_taints",
		"Taints of devices, by source (driver or rule) and effect, for devices with at least one. By pool if there are too many series: see dra_steward_tracker_detail.",
		[]string{"driver", "pool", "device", "source", "effect"}, nil)
	m.devicePatches = prometheus.NewDesc("dra_steward_tracker_device_patched_keys",
		"Attributes and capacities from ResourceSlicePatches, for devices with at least one. By pool if there are too many series: see dra_steward_tracker_detail.",
		[]string{"driver", "pool", "device"}, nil)
	m.detail = prometheus.NewDesc("dra_steward_tracker_detail",
		"Level of detail of the series of devices: 1 for the current one of device, pool, driver and cluster.", []string{"metric", "level"}, nil)
}

// change works in the entries that a slice had and has.
func (m *Metrics) change(d delta) {
	if d.new != nil {
		if d.new.tainted != nil || d.new.patched != nil || hasTaints(d.new.published) {
			m.special[d.name()] = d.new
			return
		}
	}
	delete(m.special, d.name())
}

func hasTaints(slice *resourceapi.ResourceSlice) bool {
	for i := range slice.Spec.Devices {
		if len(slice.Spec.Devices[i].Taints) > 0 {
			return true
		}
	}
	return false
}

// collectDetail adds up the details at the finest level that is within the bound.
func (m *Metrics) collectDetail(gauge func(*prometheus.Desc, int, ...string)) {
	taints, patches := sums{}, sums{}
	for _, e := range m.special {
		for d, n := range e.details() {
			if d.source == PatchSource {
				patches.add(d, n)
			} else {
				taints.add(d, n)
			}
		}
	}
	level, counted := taints.result()
	gauge(m.detail, 1, "device_taints", level)
	for d, n := range counted {
		gauge(m.deviceTaints, n, d.driver, d.pool, d.device, string(d.source), string(d.effect))
	}
	level, counted = patches.result()
	gauge(m.detail, 1, "device_patched_keys", level)
	for d, n := range counted {
		gauge(m.devicePatches, n, d.driver, d.pool, d.device)
	}
}

// sums are details by level, nil for a level with too many of them.
type sums map[string]map[detail]int

func (s sums) add(d detail, n int) {
	for _, level := range levels() {
		counted, known := s[level]
		switch at := d.at(level); {
		case !known:
			s[level] = map[detail]int{at: n}
		case counted == nil:
		case counted[at] == 0 && len(counted) >= maxDetailSeries:
			s[level] = nil
		default:
			counted[at] += n
		}
	}
}

// result is the finest level that is not too fine.
func (s sums) result() (level string, counted map[detail]int) {
	if len(s) == 0 {
		return deviceLevel, nil
	}
	for _, level := range levels() {
		if s[level] != nil {
			return level, s[level]
		}
	}
	return clusterLevel, nil
}
