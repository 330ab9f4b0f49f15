package capacity_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// partitioned returns the pool of a node with GPUs that have seven small partitions, two
// halves and the whole, as drivers with MIG publish them.
func partitioned(node string, n int) []any {
	sets := slice(node)
	sets.Name, sets.Spec.Pool.ResourceSliceCount = node+"-counters", 2
	devices := slice(node)
	devices.Spec.Pool.ResourceSliceCount = 2
	for gpu := range n {
		set := fmt.Sprintf("gpu-%d", gpu)
		counters := map[string]resourceapi.Counter{"multiprocessors": {Value: resource.MustParse("98")}}
		all := map[string]resourceapi.Counter{"multiprocessors": {Value: resource.MustParse("98")}}
		for i := range 8 {
			counters[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: resource.MustParse("1")}
			all[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: resource.MustParse("1")}
		}
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: counters})
		add := func(name, profile string, processors string, from, to int) {
			needs := map[string]resourceapi.Counter{"multiprocessors": {Value: resource.MustParse(processors)}}
			for i := from; i < to; i++ {
				needs[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: resource.MustParse("1")}
			}
			devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{Name: set + "-" + name,
				Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": {StringValue: &profile}},
				ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: needs}}})
		}
		for i := range 7 {
			add(fmt.Sprintf("1g-%d", i), "1g", "14", i, i+1)
		}
		add("3g-0", "3g", "42", 0, 4)
		add("3g-4", "3g", "42", 4, 8)
		add("7g", "7g", "98", 0, 8)
	}
	return []any{sets, devices}
}

// TestPartitions: of the partitions of a GPU the largest set counts, not the sum.
func TestPartitions(t *testing.T) {
	classes := []any{classOf("any", `true`)}
	for _, profile := range []string{"1g", "3g", "7g"} {
		classes = append(classes, classOf(profile, `device.attributes["gpu.example.com"].profile == "`+profile+`"`))
	}
	for _, tt := range []struct {
		name  string
		held  []string
		class string
		want  string
	}{
		{"empty", nil, "any", "total 10 allocatable 7 excluded 3 fits ≤7 ≤3 ≤1 0"},
		{"empty, small", nil, "1g", "total 7 allocatable 7 fits 7 3 1 0"},
		{"empty, halves", nil, "3g", "total 2 allocatable 2 fits 2 1 0 0"},
		{"empty, whole", nil, "7g", "total 1 allocatable 1 fits 1 0 0 0"},
		{"half is held", []string{"gpu-0-3g-0"}, "any", "total 10 allocatable 3 held 1 excluded 6 fits ≤3 ≤1 0 0"},
		{"a small one is held", []string{"gpu-0-1g-0"}, "3g", "total 2 allocatable 1 excluded 1 fits ≤1 0 0 0"},
		{"a small one is held, whole", []string{"gpu-0-1g-0"}, "7g", "total 1 excluded 1 fits 0 0 0 0"},
		{"all is held", []string{"gpu-0-7g"}, "any", "total 10 held 1 excluded 9 fits 0 0 0 0"},
		{"more is held than there is", []string{"gpu-0-7g", "gpu-0-1g-0"}, "any", "total 10 held 2 excluded 8 fits 0 0 0 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cluster := capacity.Cluster{View: tracker.Merge(append(partitioned("node-1", 1), classes...)...)}
			if tt.held != nil {
				cluster.Claims = append(cluster.Claims, holder("team-a", "node-1", tt.held...))
			}
			if got := text(report(t, cluster, capacity.Scope{Class: tt.class}, capacity.ByDriver).Total); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
	eight := capacity.Cluster{View: tracker.Merge(append(partitioned("node-1", 8), partitioned("node-2", 8)...)...)}
	if got, want := text(report(t, eight, capacity.Scope{}, capacity.ByNode).Total), "total 160 allocatable 112 excluded 48 fits ≤112 ≤56 ≤28 ≤14"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestInvalidCounters: no device of a pool is allocatable, and none is allocated, where a device consumes a counter
// that the pool does not define, or a counter set is defined twice.
func TestInvalidCounters(t *testing.T) {
	set := func(name, counter string) resourceapi.CounterSet {
		return resourceapi.CounterSet{Name: name, Counters: map[string]resourceapi.Counter{counter: {Value: resource.MustParse("10")}}}
	}
	const valid, invalid = "total 4 allocatable 4 fits 4 2 1 0", "total 4 unreachable 4 fits 0 0 0 0"
	for _, tt := range []struct {
		name  string
		sets  []resourceapi.CounterSet
		gates map[string]bool
		want  string
	}{
		{"defined", []resourceapi.CounterSet{set("gpu", "memory"), set("other", "memory")}, nil, valid},
		{"no counter set", nil, nil, invalid},
		{"another counter set", []resourceapi.CounterSet{set("other", "memory")}, nil, invalid},
		{"another counter", []resourceapi.CounterSet{set("gpu", "other")}, nil, invalid},
		{"a counter set twice", []resourceapi.CounterSet{set("gpu", "memory"), set("gpu", "other")}, nil, invalid},
		{"without partitions", nil, map[string]bool{"DRAPartitionableDevices": false}, "total 4 allocatable 3 unreachable 1 fits 3 1 0 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			devices := slice("node-1", gpus(4, nil)...)
			devices.Spec.Pool.ResourceSliceCount = int64(1 + len(tt.sets))
			devices.Spec.Devices[0].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "gpu", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("1")}}}}
			objects := []any{devices, classOf("any", "true")}
			for i, one := range tt.sets {
				s := slice("node-1")
				s.Name, s.Spec.Pool, s.Spec.SharedCounters = fmt.Sprint("counters-", i), devices.Spec.Pool, []resourceapi.CounterSet{one}
				objects = append(objects, s)
			}
			view, nodes, known := tracker.Merge(objects...), []*corev1.Node{large("node-1", "16")}, gates.With(tt.gates, 36, "a test")
			if got := text(report(t, capacity.Cluster{View: view, Nodes: nodes, Gates: known}, capacity.Scope{Class: "any"}, capacity.ByDriver).Total); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
			template, pod := asking(1)
			simulation := placement.Cluster{View: view, Nodes: nodes, Gates: known, Templates: []*resourceapi.ResourceClaimTemplate{template}}.Begin()
			fits, err := simulation.Fits(t.Context(), pod)
			if err != nil || fits.Lands() != (tt.want != invalid) {
				t.Errorf("the allocator: %v %v, %v", fits.Lands(), fits.Reason, err)
			}
		})
	}
}
