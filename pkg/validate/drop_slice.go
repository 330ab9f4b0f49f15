package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// ResourceSliceDrops are the fields of slices that depend on feature gates.
var ResourceSliceDrops = Drops[*resourceapi.ResourceSlice]{
	inDevices([]Gate{DRADeviceTaints}, []string{"spec.devices[].taints"},
		func(d *resourceapi.Device) bool { return len(d.Taints) > 0 },
		func(d *resourceapi.Device) { d.Taints = nil }),
	{
		Gates:  []Gate{DRAPartitionableDevices},
		Fields: []string{"spec.sharedCounters", "spec.perDeviceNodeSelection", "spec.devices[].consumesCounters", "spec.devices[].nodeName", "spec.devices[].nodeSelector", "spec.devices[].allNodes"},
		Uses: func(s *resourceapi.ResourceSlice) bool {
			return len(s.Spec.SharedCounters) > 0 || s.Spec.PerDeviceNodeSelection != nil || slices.ContainsFunc(s.Spec.Devices, partitioned)
		},
		Remove: func(s *resourceapi.ResourceSlice) {
			s.Spec.SharedCounters, s.Spec.PerDeviceNodeSelection = nil, nil
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				d.ConsumesCounters, d.NodeName, d.NodeSelector, d.AllNodes = nil, nil, nil, nil
			}
		},
	},
	inDevices([]Gate{DRADeviceBindingConditions, DRAResourceClaimDeviceStatus},
		[]string{"spec.devices[].bindingConditions", "spec.devices[].bindingFailureConditions", "spec.devices[].bindsToNode"},
		func(d *resourceapi.Device) bool {
			return len(d.BindingConditions) > 0 || len(d.BindingFailureConditions) > 0 || d.BindsToNode != nil
		},
		func(d *resourceapi.Device) {
			d.BindingConditions, d.BindingFailureConditions, d.BindsToNode = nil, nil, nil
		}),
	inDevices([]Gate{DRAConsumableCapacity},
		[]string{"spec.devices[].allowMultipleAllocations", "spec.devices[].capacity[].requestPolicy"},
		shared, unshare),
	since(37, inDevices([]Gate{DRADeviceCompatibilityGroups}, []string{"spec.devices[].consumesCounters[].compatibilityGroups"},
		func(d *resourceapi.Device) bool {
			return slices.ContainsFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return len(c.CompatibilityGroups) > 0 })
		},
		func(d *resourceapi.Device) {
			for i := range d.ConsumesCounters {
				d.ConsumesCounters[i].CompatibilityGroups = nil
			}
		})),
	since(37, inDevices([]Gate{DRANodeAllocatableResources}, []string{"spec.devices[].nodeAllocatableResources"},
		func(d *resourceapi.Device) bool { return len(d.NodeAllocatableResources) > 0 },
		func(d *resourceapi.Device) { d.NodeAllocatableResources = nil })),
	since(36, inDevices([]Gate{DRAListTypeAttributes},
		[]string{"spec.devices[].attributes[].ints", "spec.devices[].attributes[].bools", "spec.devices[].attributes[].strings", "spec.devices[].attributes[].versions"},
		func(d *resourceapi.Device) bool { return hasLists(*d) }, unlist)),
	{
		Gates: []Gate{DRAPartitionableDevicesType}, Known: 37, Fields: []string{"spec.partitionTypeAttribute"},
		Uses:   func(s *resourceapi.ResourceSlice) bool { return s.Spec.PartitionTypeAttribute != nil },
		Remove: func(s *resourceapi.ResourceSlice) { s.Spec.PartitionTypeAttribute = nil },
	},
	{
		Gates: []Gate{DRAOptionalNodeOperations}, Known: 37, Fields: []string{"spec.skipNodeOperations"},
		Uses:   func(s *resourceapi.ResourceSlice) bool { return len(s.Spec.SkipNodeOperations) > 0 },
		Remove: func(s *resourceapi.ResourceSlice) { s.Spec.SkipNodeOperations = nil },
	},
}

// since says that the API has the fields of drop since a minor.
func since(minor int, drop Drop[*resourceapi.ResourceSlice]) Drop[*resourceapi.ResourceSlice] {
	drop.Known = minor
	return drop
}

// inDevices makes a Drop of fields that stand in devices only.
func inDevices(gates []Gate, fields []string, uses func(*resourceapi.Device) bool, remove func(*resourceapi.Device)) Drop[*resourceapi.ResourceSlice] {
	return Drop[*resourceapi.ResourceSlice]{
		Gates: gates, Fields: fields,
		Uses: func(s *resourceapi.ResourceSlice) bool {
			return slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return uses(&d) })
		},
		Remove: func(s *resourceapi.ResourceSlice) {
			for i := range s.Spec.Devices {
				remove(&s.Spec.Devices[i])
			}
		},
	}
}

func partitioned(d resourceapi.Device) bool {
	return len(d.ConsumesCounters) > 0 || d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil
}

func shared(d *resourceapi.Device) bool {
	if d.AllowMultipleAllocations != nil {
		return true
	}
	for _, capacity := range d.Capacity {
		if capacity.RequestPolicy != nil {
			return true
		}
	}
	return false
}

func unshare(d *resourceapi.Device) {
	d.AllowMultipleAllocations = nil
	for name, capacity := range d.Capacity {
		capacity.RequestPolicy = nil
		d.Capacity[name] = capacity
	}
}

func unlist(d *resourceapi.Device) {
	for name, a := range d.Attributes {
		a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
		d.Attributes[name] = a
	}
}
