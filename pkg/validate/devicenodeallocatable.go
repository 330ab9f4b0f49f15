package validate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nodeAllocatableRules are the rules for what a device takes from its node.
var nodeAllocatableRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "node-allocatable",
		Doc: `What a device takes from its node is counted in positive amounts of what the node has.

cpu, memory or hugepages; as a multiple of the devices or of one of their capacities,
or as an overhead for each pod or container.`,
		Class:  Mirror,
		Server: "the same, since 1.37, with DRANodeAllocatableResources; 1.36 has another field",
		Source: "KEP-5517, NodeAllocatableResource",
		Check:  everyDevice(nodeAllocatable),
		Update: everyDeviceUpdate(nodeAllocatable),
	},
}

func nodeAllocatable(d device, _ Conditions) (errs field.ErrorList) {
	if len(d.NodeAllocatableResources) == 0 || !d.judged() {
		return nil
	}
	list := d.at("nodeAllocatableResources")
	for _, name := range keysOf(d.NodeAllocatableResources, func(corev1.ResourceName, resourceapi.NodeAllocatableResource) bool { return true }) {
		at, taken := list.Key(string(name)), d.NodeAllocatableResources[name]
		if m := taken.Mapping; m != nil && d.declared() && (m.CapacityKey == nil) == (m.DeviceMultiplier == nil) {
			errs = append(errs, field.Invalid(at.Child("mapping"), "", "exactly one of capacityKey and deviceMultiplier must be set"))
		}
		if d.passedOver {
			continue
		}
		if !ofNode(name) {
			errs = append(errs, field.Invalid(at, name, "choose cpu, memory or hugepages"))
		}
		if taken.Mapping == nil && taken.Overhead == nil {
			errs = append(errs, field.Required(at, "set mapping, overhead or both"))
		}
		if taken.Mapping != nil {
			errs = append(errs, nodeMapping(at.Child("mapping"), taken.Mapping, d.Capacity)...)
		}
		if taken.Overhead != nil {
			errs = append(errs, nodeOverhead(at.Child("overhead"), taken.Overhead)...)
		}
	}
	return errs
}

func ofNode(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func nodeMapping(at *field.Path, m *resourceapi.NodeAllocatableMapping, capacities map[resourceapi.QualifiedName]resourceapi.DeviceCapacity) (errs field.ErrorList) {
	if m.CapacityKey != nil {
		keyAt := at.Child("capacityKey")
		if _, exists := capacities[*m.CapacityKey]; *m.CapacityKey == "" {
			errs = append(errs, field.Invalid(keyAt, "", "must not be empty"))
		} else if !exists {
			errs = append(errs, field.NotFound(keyAt, *m.CapacityKey))
		}
		if m.CapacityMultiplier == nil {
			errs = append(errs, field.Required(at.Child("capacityMultiplier"), "is needed beside capacityKey"))
		} else {
			errs = append(errs, positive(at.Child("capacityMultiplier"), *m.CapacityMultiplier)...)
		}
	} else if m.CapacityMultiplier != nil {
		errs = append(errs, field.Required(at.Child("capacityKey"), "is needed beside capacityMultiplier"))
	}
	if m.DeviceMultiplier != nil {
		errs = append(errs, positive(at.Child("deviceMultiplier"), *m.DeviceMultiplier)...)
	}
	return errs
}

func positive(at *field.Path, q resource.Quantity) field.ErrorList {
	if q.Sign() > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, text(q), "must be greater than zero")}
}

func nodeOverhead(at *field.Path, o *resourceapi.NodeAllocatableOverhead) (errs field.ErrorList) {
	if o.PerPod == nil && o.PerContainer == nil {
		return field.ErrorList{field.Invalid(at, "", "set perPod, perContainer or both")}
	}
	for _, part := range []namedQuantity{{"perPod", o.PerPod}, {"perContainer", o.PerContainer}} {
		if part.Quantity != nil && part.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Child(part.name), text(*part.Quantity), "must not be negative"))
		}
	}
	return errs
}
