package why_test

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind is what the devices of a world have, and what the claims ask for.
type kind string

const (
	// plain devices are interchangeable.
	plain kind = "plain"
	// numa claims ask for devices with the same value of an attribute.
	numa kind = "numa"
	// partitions share counters, and claims ask for one of any size.
	partitions kind = "partitions"
	// profile claims ask for partitions of one size.
	profile kind = "profile"
	// shared devices have capacity that several claims consume.
	shared kind = "shared"
	// network devices are on all nodes, next to those of the nodes.
	network kind = "network"
	// alternatives are two large devices, or else one small.
	alternatives kind = "alternatives"
)

// A world is the devices of one driver, and a claim of which as many as possible are created.
type world struct {
	seed  uint64
	kind  kind
	nodes []string
	// slices are published, and held are the devices that other pods have first.
	slices []*resourceapi.ResourceSlice
	held   int
	spec   resourceapi.ResourceClaimSpec
	// interchangeable is true if the number has to be exact.
	interchangeable bool
}

func (w *world) name() string   { return fmt.Sprintf("w%d", w.seed) }
func (w *world) driver() string { return w.name() + ".example.com" }

// newWorld makes a world from a seed.
func newWorld(seed uint64, ordered bool) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	kinds := []kind{plain, network, numa, partitions, network, profile, shared, alternatives}
	w := &world{seed: seed, kind: kinds[seed%uint64(len(kinds))], held: r.IntN(3)}
	if w.kind == network && !ordered {
		w.kind = plain // pools are looked at in any order
	}
	least := 1
	if w.kind == network {
		least = 2
	}
	for _, i := range r.Perm(nodes)[:least+r.IntN(nodes+1-least)] {
		w.nodes = append(w.nodes, nodeName(i))
	}
	request := resourceapi.ExactDeviceRequest{DeviceClassName: w.name(), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1 + int64(r.IntN(2))}
	if r.IntN(3) == 0 {
		request.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/hot", Operator: resourceapi.DeviceTolerationOpExists}}
	}
	switch w.kind {
	case partitions, profile:
		w.partitions(r)
	case shared:
		w.shared(r, &request)
	default:
		w.plain(r)
	}
	w.spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "devices", Exactly: &request}}
	w.ask(r, &request)
	w.interchangeable = w.kind == plain || w.kind == profile
	return w
}

// ask changes the request as the kind of the world wants it.
func (w *world) ask(r *rand.Rand, request *resourceapi.ExactDeviceRequest) {
	attribute := resourceapi.FullyQualifiedName(w.driver() + "/numa")
	size := func(n int) []resourceapi.DeviceSelector {
		return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes[%q].size == %d", w.driver(), n)}}}
	}
	switch w.kind {
	case numa:
		request.Count = 2
		w.spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: &attribute}}
	case network:
		request.Count = 2
		w.network(1 + r.IntN(3))
	case profile:
		request.Selectors = size(1 + r.IntN(2))
		request.Count = 1
	case partitions:
		request.Count = 1
	case alternatives:
		sub := func(name string, n int, count int64) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: w.name(), Selectors: size(n), AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count, Tolerations: request.Tolerations}
		}
		w.spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "devices", FirstAvailable: []resourceapi.DeviceSubRequest{sub("large", 2, 2), sub("small", 1, 1)}}}
	}
}

func (w *world) slice(node, suffix string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: w.name() + "-" + node + suffix}, Spec: resourceapi.ResourceSliceSpec{
		Driver: w.driver(), NodeName: &node, Devices: devices, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	w.slices = append(w.slices, s)
	return s
}

// randomDevice returns a device, one of six of which is tainted.
func randomDevice(r *rand.Rand, name string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"numa": {IntValue: new(int64(r.IntN(2)))}, "size": {IntValue: new(int64(1 + r.IntN(2)))}}}
	if r.IntN(6) == 0 {
		d.Taints = []resourceapi.DeviceTaint{{Key: "example.com/hot", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return d
}

func (w *world) plain(r *rand.Rand) {
	for _, node := range w.nodes {
		var devices []resourceapi.Device
		n := 2 + r.IntN(4)
		if w.kind == network {
			n = 1 + 2*r.IntN(2) // one of them needs another of the network
		}
		for i := range n {
			devices = append(devices, randomDevice(r, fmt.Sprintf("gpu-%d", i)))
		}
		w.slice(node, "", devices...)
	}
}

// network adds devices that all nodes reach.
func (w *world) network(n int) {
	s := w.slice("network", "")
	s.Spec.NodeName, s.Spec.AllNodes = nil, new(true)
	for i := range n {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("nic-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"numa": {IntValue: new(int64(0))}, "size": {IntValue: new(int64(1))}}})
	}
}

// partitions adds GPUs with parts of one, two and four units, of which four are available.
func (w *world) partitions(r *rand.Rand) {
	counter := func(n int) map[string]resourceapi.Counter {
		return map[string]resourceapi.Counter{"units": {Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}}
	}
	for _, node := range w.nodes {
		gpus := 1 + r.IntN(2)
		sets, devices := w.slice(node, "-counters"), w.slice(node, "")
		sets.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
		for g := range gpus {
			set := fmt.Sprintf("gpu-%d", g)
			sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: counter(4)})
			// The order in the slice is that in which the scheduler looks.
			parts := []int{1, 1, 1, 2, 2, 4}
			r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
			for i, size := range parts {
				d := randomDevice(r, fmt.Sprintf("%s-part-%d", set, i))
				d.Attributes["size"] = resourceapi.DeviceAttribute{IntValue: new(int64(size))}
				d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: counter(size)}}
				devices.Spec.Devices = append(devices.Spec.Devices, d)
			}
		}
	}
}

// shared adds devices with memory of which claims have parts.
func (w *world) shared(r *rand.Rand, request *resourceapi.ExactDeviceRequest) {
	for _, node := range w.nodes {
		var devices []resourceapi.Device
		for i := range 1 + r.IntN(2) {
			d := randomDevice(r, fmt.Sprintf("gpu-%d", i))
			d.AllowMultipleAllocations = new(true)
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(fmt.Sprintf("%dGi", 30+10*r.IntN(3))),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: new(resource.MustParse("10Gi")), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: new(resource.MustParse("5Gi")), Step: new(resource.MustParse("5Gi"))}}}}
			devices = append(devices, d)
		}
		w.slice(node, "", devices...)
	}
	if r.IntN(2) == 0 {
		request.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(fmt.Sprintf("%dGi", 12+r.IntN(10)))}}
	}
}
