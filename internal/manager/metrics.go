package manager

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/controllers/capacitymetrics"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/serving/daemon"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// addMetrics registers the metrics of claims, devices and the leader.
func (e *eviction) addMetrics(registry prometheus.Registerer) error {
	var err error
	if e.leading, err = NewLeaderMetrics(registry); err != nil {
		return err
	}
	return errors.Join(daemon.RegisterBuildInfo(registry), NewClaimMetrics(registry, e.claims.GetStore(), time.Now),
		NewDeviceMetrics(registry, e.claims.GetStore(), devicesOf(e.evictor.Tracker)))
}

// stuckAfter is how long the controllers of Kubernetes get to release a claim.
const stuckAfter = 5 * time.Minute

// stuck reports whether only the finalizer of the scheduler holds a claim that has been in
// deletion for long: no pod uses it, and no controller releases it.
func stuck(claim *resourceapi.ResourceClaim, now time.Time) bool {
	return claim.DeletionTimestamp != nil && now.Sub(claim.DeletionTimestamp.Time) > stuckAfter &&
		len(claim.Status.ReservedFor) == 0 && slices.Equal(claim.Finalizers, []string{resourceapi.Finalizer})
}

// NewClaimMetrics counts the claims of a store when it is scraped.
func NewClaimMetrics(registerer prometheus.Registerer, claims cache.Store, now func() time.Time) error {
	return registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dra_steward_claims_stuck_in_deletion",
		Help: "ResourceClaims in deletion for more than 5 minutes that no pod uses and nothing holds but the finalizer " + resourceapi.Finalizer + ".",
	}, func() float64 {
		count := 0
		if claims == nil { // only described
			return 0
		}
		for _, object := range claims.List() {
			if claim, ok := object.(*resourceapi.ResourceClaim); ok && stuck(claim, now()) {
				count++
			}
		}
		return float64(count)
	}))
}

// NewLeaderMetrics registers the metric of the active replica.
func NewLeaderMetrics(registerer prometheus.Registerer) (prometheus.Gauge, error) {
	leading := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dra_steward_controller_leading",
		Help: "1 while this replica of the controller is active.",
	})
	return leading, registerer.Register(leading)
}

// deviceMetrics count devices when they are scraped.
type deviceMetrics struct {
	devices, held *prometheus.Desc
	claims        cache.Store
	// all yields the devices in ResourceSlices; one of two generations of a pool twice.
	all func() iter.Seq[usage.DeviceID]
}

// NewDeviceMetrics registers the numbers of free and held devices: of the devices that all
// yields and of the claims of a store. Both are nil where the metrics are only described.
func NewDeviceMetrics(registerer prometheus.Registerer, claims cache.Store, all func() iter.Seq[usage.DeviceID]) error {
	return registerer.Register(&deviceMetrics{
		devices: prometheus.NewDesc("dra_steward_devices",
			"Devices in ResourceSlices, by driver and state: held (allocated to a claim, admin access not counted) or free. Drivers beyond the 100 with the most devices have the label \"\".",
			[]string{"driver", "state"}, nil),
		held: prometheus.NewDesc("dra_steward_devices_held",
			"Devices that are allocated to claims, by driver and by the DeviceClass of the request, the first by name for a device that claims share; admin access is not counted. Pairs beyond the 100 with the most devices have the labels \"\".",
			[]string{"driver", "class"}, nil),
		claims: claims, all: all,
	})
}

// Describe implements prometheus.Collector.
func (m *deviceMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.devices; out <- m.held }

// Collect implements prometheus.Collector.
func (m *deviceMetrics) Collect(out chan<- prometheus.Metric) {
	if m.claims == nil {
		return
	}
	held := map[usage.DeviceID]string{}
	for _, object := range m.claims.List() {
		if claim, ok := object.(*resourceapi.ResourceClaim); ok {
			addHeld(held, claim)
		}
	}
	byState, byClass, seen := map[[2]string]int{}, map[[2]string]int{}, map[usage.DeviceID]bool{}
	for id := range m.all() {
		if seen[id] {
			continue
		}
		seen[id] = true
		free, used := 1, 0
		if class, is := held[id]; is {
			free, used = 0, 1
			byClass[[2]string{id.Driver, class}]++
		}
		byState[[2]string{id.Driver, "free"}] += free
		byState[[2]string{id.Driver, "held"}] += used
	}
	for labels, n := range foldDrivers(byState) {
		out <- prometheus.MustNewConstMetric(m.devices, prometheus.GaugeValue, float64(n), labels[0], labels[1])
	}
	for labels, n := range foldPairs(byClass) {
		out <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(n), labels[0], labels[1])
	}
}

// addHeld adds the devices of a claim, with the class of their request: the first by name of those that share a
// device, since claims have no order.
func addHeld(held map[usage.DeviceID]string, claim *resourceapi.ResourceClaim) {
	if claim.Status.Allocation == nil {
		return
	}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.AdminAccess == nil || !*result.AdminAccess {
			id, class := usage.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}, classOf(claim, result.Request)
			if other, shared := held[id]; !shared || class < other {
				held[id] = class
			}
		}
	}
}

// classOf returns the DeviceClass of a request, or of an alternative: "request/alternative".
func classOf(claim *resourceapi.ResourceClaim, request string) string {
	name, alternative, _ := strings.Cut(request, "/")
	for _, r := range claim.Spec.Devices.Requests {
		if r.Name != name {
			continue
		}
		if r.Exactly != nil {
			return r.Exactly.DeviceClassName
		}
		for _, sub := range r.FirstAvailable {
			if sub.Name == alternative {
				return sub.DeviceClassName
			}
		}
	}
	return ""
}

// maxSeries bounds the series of one metric: drivers and classes are named by their authors.
const maxSeries = 100

// foldPairs adds up all but the largest counts under empty labels.
func foldPairs(counts map[[2]string]int) map[[2]string]int {
	kept := largest(counts)
	folded := map[[2]string]int{}
	for labels, n := range counts {
		if !kept[labels] {
			labels = [2]string{}
		}
		folded[labels] += n
	}
	return folded
}

// foldDrivers adds up all but the largest drivers under an empty driver, and keeps the state.
func foldDrivers(counts map[[2]string]int) map[[2]string]int {
	drivers := map[[2]string]int{}
	for labels, n := range counts {
		drivers[[2]string{labels[0]}] += n
	}
	kept := largest(drivers)
	folded := map[[2]string]int{}
	for labels, n := range counts {
		if !kept[[2]string{labels[0]}] {
			labels[0] = ""
		}
		folded[labels] += n
	}
	return folded
}

// largest returns the labels of the largest counts.
func largest(counts map[[2]string]int) map[[2]string]bool {
	all := slices.SortedFunc(maps.Keys(counts), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), slices.Compare(a[:], b[:]))
	})
	kept := map[[2]string]bool{}
	for _, labels := range all[:min(len(all), maxSeries)] {
		kept[labels] = true
	}
	return kept
}

// devicesOf yields the devices of the tracker's snapshot.
func devicesOf(t *tracker.Tracker) func() iter.Seq[usage.DeviceID] {
	return func() iter.Seq[usage.DeviceID] {
		return func(yield func(usage.DeviceID) bool) {
			for device := range t.Snapshot().Devices() {
				if !yield(usage.DeviceID{Driver: device.Driver(), Pool: device.Pool(), Device: device.Name()}) {
					return
				}
			}
		}
	}
}

// addCapacityMetrics lets the leader count devices, if the options ask for it. Nodes are read
// for it, and by drains with foresight: one informer has them.
func (o Options) addCapacityMetrics(e *eviction, _ *rest.Config, registry *prometheus.Registry, log logr.Logger) error {
	switch {
	case o.capacityPatched && !o.capacityMetrics:
		return errors.New("--capacity-patched: needs --capacity-metrics")
	case !o.capacityMetrics:
		return nil
	}
	metrics, err := capacitymetrics.NewMetrics(registry)
	if err != nil {
		return err
	}
	e.watchGates()
	nodes, err := e.nodes()
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	controller := capacitymetrics.New(capacitymetrics.Options{Metrics: metrics, Logger: log,
		Ready: func() error {
			for _, checker := range []cache.DoneChecker{nodes.HasSyncedChecker(), e.gates} {
				if !cache.IsDone(checker) {
					return fmt.Errorf("%s are not read yet", checker.Name())
				}
			}
			return e.ready(nil)
		},
		Cluster: func() capacity.Cluster { return e.capacity(nodes.GetStore()) },
	})
	e.add("capacitymetrics", controller.Run)
	return nil
}

// capacity is the cluster now.
func (e *eviction) capacity(nodes cache.Store) capacity.Cluster {
	devices := devicesOfCluster{e}
	minor := devices.Minor()
	return capacity.Cluster{
		View: devices.Snapshot(), Claims: placement.Stored[*resourceapi.ResourceClaim](e.claims.GetStore()), Nodes: placement.Stored[*corev1.Node](nodes),
		Patched: e.options.capacityPatched, Gates: devices.Gates(minor), IncompletePools: minor != 0 && minor < 35,
	}
}
