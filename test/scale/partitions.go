package scale

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Partitions returns the pool of a node with one GPU that can be divided, instead of [Cluster.GPUs]:
// into seven parts, two halves, or not at all. The first slice has the counters.
func (c Cluster) Partitions(node int) []any {
	counters, devices := sliceOf(GPUDriver, node), sliceOf(GPUDriver, node)
	counters.Name += "-counters"
	counters.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	needs := func(processors int64, from, to int) map[string]resourceapi.Counter {
		all := map[string]resourceapi.Counter{"multiprocessors": {Value: *resource.NewQuantity(processors, resource.DecimalSI)}}
		for i := from; i < to; i++ {
			all[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: *resource.NewQuantity(1, resource.DecimalSI)}
		}
		return all
	}
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: gpuName(0), Counters: needs(98, 0, 8)}}
	add := func(name string, processors int64, from, to int) {
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{Name: gpuName(0) + "-" + name,
			Attributes:       map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": text(name[:2])},
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: gpuName(0), Counters: needs(processors, from, to)}}})
	}
	for i := range 7 {
		add(fmt.Sprintf("1g-%d", i), 14, i, i+1)
	}
	add("3g-0", 42, 0, 4)
	add("3g-4", 42, 4, 8)
	add("7g", 98, 0, 8)
	return []any{counters, devices}
}
