package objects

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (r random) slice() *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: r.meta(false)}
	spec := &slice.Spec
	spec.Driver = r.driver()
	spec.Pool = resourceapi.ResourcePool{Name: r.pool(), Generation: int64(r.IntN(3)), ResourceSliceCount: int64(1 + r.IntN(2))}
	perDevice := r.placement(spec)
	if r.chance(0.12) {
		spec.SharedCounters = some(r, resourceapi.ResourceSliceMaxCounterSets, func(i int) resourceapi.CounterSet {
			return resourceapi.CounterSet{Name: r.unique("set", i), Counters: r.counters()}
		})
	} else {
		spec.Devices = r.devices(perDevice)
	}
	if r.chance(0.05) {
		name := resourceapi.FullyQualifiedName(r.qualified())
		spec.PartitionTypeAttribute = &name
	}
	if r.chance(0.05) {
		spec.SkipNodeOperations = r.operations()
	}
	return slice
}

// placement says where the devices are: exactly one of four fields.
func (r random) placement(spec *resourceapi.ResourceSliceSpec) (perDevice bool) {
	yes := true
	for again := true; again; again = r.chance(r.wild) {
		switch r.IntN(4) {
		case 0:
			node := r.node()
			spec.NodeName = &node
		case 1:
			spec.NodeSelector = r.nodeSelector()
		case 2:
			spec.AllNodes = &yes
		default:
			spec.PerDeviceNodeSelection = &yes
			perDevice = true
		}
	}
	return perDevice
}

func (r random) devices(perDevice bool) []resourceapi.Device {
	n := r.size(4)
	switch {
	case r.chance(0.03):
		n = pick(r, 64, 65, 128, 129)
	case n == 0 && r.chance(0.9):
		n = 1
	}
	var devices []resourceapi.Device
	for i := range n {
		device := resourceapi.Device{Name: r.unique("gpu", i)}
		if i < 3 { // what a slice has of these is as good at its beginning
			device = r.device(i)
		}
		if perDevice {
			r.placeDevice(&device)
		}
		devices = append(devices, device)
	}
	return devices
}

func (r random) placeDevice(device *resourceapi.Device) {
	yes := true
	switch r.IntN(3) {
	case 0:
		node := r.node()
		device.NodeName = &node
	case 1:
		device.NodeSelector = r.nodeSelector()
	default:
		device.AllNodes = &yes
	}
}

func (r random) device(i int) resourceapi.Device {
	device := resourceapi.Device{Name: r.unique("gpu", i)}
	if r.chance(0.6) {
		device.Attributes = table(r, 20, func(i int) resourceapi.QualifiedName {
			return resourceapi.QualifiedName(r.attribute(i))
		}, r.value)
	}
	if r.chance(0.4) {
		multiple := r.bool()
		device.AllowMultipleAllocations = maybe(r, 0.5, multiple)
		shared := device.AllowMultipleAllocations != nil && multiple
		device.Capacity = table(r, 12, func(i int) resourceapi.QualifiedName {
			return resourceapi.QualifiedName(r.attribute(i))
		}, func() resourceapi.DeviceCapacity { return r.capacity(shared) })
	}
	if r.chance(0.4) {
		device.Taints = some(r, resourceapi.DeviceTaintsMaxLength, func(int) resourceapi.DeviceTaint { return r.taint() })
	}
	if r.chance(0.15) {
		device.ConsumesCounters = some(r, resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, r.consumption)
	}
	if r.chance(0.1) {
		r.bind(&device)
	}
	if r.chance(0.1) {
		device.NodeAllocatableResources = r.allocatable(&device)
	}
	return device
}

func (r random) bind(device *resourceapi.Device) {
	device.BindsToNode = maybe(r, 0.5, r.bool())
	device.BindingConditions = []string{r.labelName()}
	device.BindingFailureConditions = []string{"example.com/failed"}
	for i := range r.size(resourceapi.BindingConditionsMaxSize) {
		device.BindingConditions = append(device.BindingConditions, r.unique("condition", i))
	}
}

func (r random) allocatable(device *resourceapi.Device) map[corev1.ResourceName]resourceapi.NodeAllocatableResource {
	var resource resourceapi.NodeAllocatableResource
	amount, multiplier := r.quantity(), r.quantity()
	if len(device.Capacity) > 0 {
		name := slices.Min(slices.Collect(maps.Keys(device.Capacity)))
		resource.Mapping = &resourceapi.NodeAllocatableMapping{CapacityKey: &name, CapacityMultiplier: &multiplier}
	}
	if resource.Mapping == nil || r.bool() {
		resource.Overhead = &resourceapi.NodeAllocatableOverhead{PerPod: &amount}
	}
	return map[corev1.ResourceName]resourceapi.NodeAllocatableResource{
		corev1.ResourceName(r.text("cpu", "memory", "hugepages-2Mi")): resource,
	}
}

func (r random) value() (a resourceapi.DeviceAttribute) {
	for again := true; again; again = r.chance(r.wild) {
		text, version := r.text("a", "A100", ""), r.text("1.2.3", "0.1.0-rc.1+build")
		number, yes := int64(r.IntN(100)), r.bool()
		switch r.IntN(10) {
		case 0, 1:
			a.IntValue = &number
		case 2, 3:
			a.BoolValue = &yes
		case 4, 5, 6:
			a.StringValue = &text
		case 7:
			a.VersionValue = &version
		case 8:
			a.StringValues = []string{text, "b"}
			a.StringValues = append(a.StringValues, some(r, 46, func(int) string { return r.text("c") })...)
		default:
			a.VersionValues = []string{version}
		}
	}
	return a
}

func (r random) capacity(shared bool) resourceapi.DeviceCapacity {
	capacity := resourceapi.DeviceCapacity{Value: r.quantity()}
	if !shared && !r.chance(r.wild) || r.bool() {
		return capacity
	}
	capacity.Value = r.amount()
	one, value := r.amount(), capacity.Value
	capacity.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: &value}
	switch r.IntN(3) {
	case 0:
		capacity.RequestPolicy.ValidValues = append(capacity.RequestPolicy.ValidValues, value)
	case 1:
		capacity.RequestPolicy.ValidRange = &resourceapi.CapacityRequestPolicyRange{Min: &one, Max: maybe(r, 0.5, value)}
		if r.bool() {
			capacity.RequestPolicy.ValidRange.Min = &value
			capacity.RequestPolicy.ValidRange.Step = maybe(r, 0.7, one)
		}
	}
	return capacity
}

func (r random) consumption(i int) resourceapi.DeviceCounterConsumption {
	return resourceapi.DeviceCounterConsumption{
		CounterSet: r.unique("set", i), Counters: r.counters(),
		CompatibilityGroups: some(r, resourceapi.DeviceCompatibilityGroupsMaxSize, func(i int) string { return r.unique("group", i) }),
	}
}

func (r random) counters() map[string]resourceapi.Counter {
	counters := table(r, resourceapi.ResourceSliceMaxCountersPerCounterSet, func(i int) string { return r.unique("counter", i) },
		func() resourceapi.Counter { return resourceapi.Counter{Value: r.quantity()} })
	if counters == nil && !r.chance(r.wild) {
		counters = map[string]resourceapi.Counter{"memory": {Value: r.quantity()}}
	}
	return counters
}

func (r random) operations() []resourceapi.SkipNodeOperation {
	if r.chance(r.wild) {
		return []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodePrepareResources}
	}
	return pick(r, []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll},
		[]resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodeUnprepareResources, resourceapi.SkipNodeOperationNodePrepareResources})
}

func (r random) taint() resourceapi.DeviceTaint {
	taint := resourceapi.DeviceTaint{
		Key: r.labelName(), Value: r.labelValue(),
		Effect: resourceapi.DeviceTaintEffect(r.text("NoSchedule", "NoExecute", "None")),
	}
	if r.chance(0.3) {
		added := metav1.Unix(int64(1700000000+r.IntN(3)), 0)
		taint.TimeAdded = &added
	}
	return taint
}

func (r random) nodeSelector() *corev1.NodeSelector {
	requirement := corev1.NodeSelectorRequirement{Key: r.labelName(), Operator: corev1.NodeSelectorOpIn, Values: []string{r.labelValue()}}
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}
	if r.chance(0.3) {
		term = corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{r.node()}}}}
	}
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
}
