package apiserver

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

type sliceCheck = func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList

type sliceUpdate = func(old, slice *resourceapi.ResourceSlice, c Pass) field.ErrorList

// eachDevice makes a check of slices of one of devices, for a rule that the
// hand-written validation of the API server has alone.
func eachDevice(check func(walk.Device, Pass) field.ErrorList) sliceCheck {
	return everyDevice(readDevice(check))
}

// eachDeviceUpdate is eachDevice for updates, where check asks what is stored.
func eachDeviceUpdate(check func(walk.Device, Pass) field.ErrorList) sliceUpdate {
	return everyDeviceUpdate(readDevice(check))
}

func readDevice(check func(walk.Device, Pass) field.ErrorList) func(walk.Device, Pass) field.ErrorList {
	return func(d walk.Device, c Pass) field.ErrorList {
		if d.PassedOver {
			return nil
		}
		return check(d, c)
	}
}

// everyDevice makes a check of slices of one of devices, for a rule that the
// declarative validation of the API server has too.
func everyDevice(check func(walk.Device, Pass) field.ErrorList) sliceCheck {
	return func(slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
		for d := range walk.CheckedDevices(nil, slice, c.server) {
			errs = append(errs, check(d, c)...)
		}
		return errs
	}
}

func everyDeviceUpdate(check func(walk.Device, Pass) field.ErrorList) sliceUpdate {
	return func(old, slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
		for d := range walk.CheckedDevices(old, slice, c.server) {
			errs = append(errs, check(d, c)...)
		}
		return errs
	}
}

// bindingRules are the rules for what has to happen before a pod is bound.
var bindingRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "binding-conditions",
		Doc: `A device has at most 4 binding conditions and 4 binding failure conditions, or neither.

Each is a label name that occurs once, in one of the two lists. The scheduler waits for all
binding conditions and gives up at the first failure condition. With only one of the lists
it would wait indefinitely, or not at all.`,
		Upstream: "the same, since 1.34, with DRADeviceBindingConditions",
		Source:   "KEP-5007, BindingConditionsMaxSize, BindingFailureConditionsMaxSize",
		Check:    everyDevice(bindingConditions),
		Update:   everyDeviceUpdate(bindingConditions),
	},
}

func bindingConditions(d walk.Device, c Pass) field.ErrorList {
	binding, failure := d.BindingConditions, d.BindingFailureConditions
	switch {
	case len(binding) == 0 && len(failure) == 0 || !d.Checked():
		return nil
	case d.PassedOver: // only the declarative validation, which counts
		errs := form.AtMost(d.At("bindingConditions"), len(binding), resourceapi.BindingConditionsMaxSize)
		return append(errs, form.AtMost(d.At("bindingFailureConditions"), len(failure), resourceapi.BindingFailureConditionsMaxSize)...)
	}
	return bindingParameters(d.At(), binding, failure, c)
}

// bindingParameters reports what is wrong with the conditions of a device or a result.
func bindingParameters(at *field.Path, binding, failure []string, c Pass) (errs field.ErrorList) {
	bindingAt, failureAt := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	errs = append(errs, labelNames(bindingAt, binding, resourceapi.BindingConditionsMaxSize, c)...)
	errs = append(errs, labelNames(failureAt, failure, resourceapi.BindingFailureConditionsMaxSize, c)...)
	sorted := slices.Sorted(slices.Values(binding))
	for i, name := range failure {
		if _, both := slices.BinarySearch(sorted, name); both {
			errs = append(errs, field.Invalid(failureAt.Index(i), name, "is a binding condition too"))
		}
	}
	switch {
	case len(binding) == 0 && len(failure) > 0:
		errs = append(errs, field.Invalid(bindingAt, len(binding), "is required with bindingFailureConditions"))
	case len(failure) == 0 && len(binding) > 0:
		errs = append(errs, field.Invalid(failureAt, len(failure), "is required with bindingConditions"))
	}
	return errs
}

// deviceRules are the rules for a device as a whole.
var deviceRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "device-name",
		Doc: `The name of a device is a DNS label.

At most 63 bytes of lower case letters, digits and "-", with a letter or digit at
both ends. Allocation results and taint rules refer to devices by this name.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, Device.Name",
		Check:    eachDevice(deviceName),
	},
	{
		ID: "device-name-unique",
		Doc: `No two devices of a slice have the same name.

An allocation names a device by driver, pool and name. With two devices of one name, the
second can be allocated while the first is in use.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, Device.Name",
		Check:    eachDevice(deviceNameUnique),
	},
}

func deviceName(d walk.Device, _ Pass) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1123Label(d.Name) {
		errs = append(errs, field.Invalid(d.At("name"), d.Name, message))
	}
	return errs
}

func deviceNameUnique(d walk.Device, c Pass) field.ErrorList {
	if d.List.Places.IsFirst(d.Index) {
		return nil
	}
	return field.ErrorList{field.Duplicate(duplicate(d.At(), "name", c), d.Name)}
}

// deviceNodeRules are the rules for devices that name their own nodes.
var deviceNodeRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "device-nodes",
		Doc: `A device selects its nodes if, and only if, its slice sets perDeviceNodeSelection.

With perDeviceNodeSelection each device has one of nodeName, nodeSelector and allNodes.
Without it the slice selects the nodes of all its devices, and consumers ignore these fields
of a device.`,
		Upstream: "the same, since 1.33, with DRAPartitionableDevices",
		Source:   "KEP-4815, ResourceSliceSpec.PerDeviceNodeSelection",
		Check: func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
			each := slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection
			return eachDevice(func(d walk.Device, _ Pass) field.ErrorList {
				switch {
				case each:
					return ownNodes(d)
				case d.NodeName == nil && d.NodeSelector == nil && d.AllNodes == nil:
					return nil
				}
				return field.ErrorList{field.Invalid(d.At(), d.Name, "may say which nodes reach it only with perDeviceNodeSelection of the slice")}
			})(slice, c)
		},
	},
}

func ownNodes(d walk.Device) (errs field.ErrorList) {
	ways := 0
	if d.NodeName != nil {
		if *d.NodeName == "" {
			errs = append(errs, field.Invalid(d.At("nodeName"), "", "must be the name of a node, or left out"))
		} else {
			ways++
			errs = append(errs, nodeName(d.At("nodeName"), *d.NodeName)...)
		}
	}
	if d.NodeSelector != nil {
		ways++
		errs = append(errs, nodeSelector(d.At("nodeSelector"), d.NodeSelector)...)
	}
	if d.AllNodes != nil {
		if *d.AllNodes {
			ways++
		} else {
			errs = append(errs, field.Invalid(d.At("allNodes"), false, "must be true, or left out"))
		}
	}
	const one = "exactly one of nodeName, nodeSelector and allNodes must be set"
	switch {
	case ways == 0:
		errs = append(errs, field.Required(d.At(), one))
	case ways > 1:
		errs = append(errs, field.Invalid(d.At(), ways, one))
	}
	return errs
}

// nodeAllocatableRules are the rules for what a device takes from its node.
var nodeAllocatableRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "node-allocatable",
		Doc: `A device consumes positive amounts of allocatable resources of its node.

The resources are cpu, memory and hugepages. The amount is a multiple of the number of
devices or of one of their capacities, or an overhead for each pod or container.`,
		Upstream: "the same, since 1.37, with DRANodeAllocatableResources; 1.36 has another field",
		Source:   "KEP-5517, NodeAllocatableResource",
		Check:    everyDevice(nodeAllocatable),
		Update:   everyDeviceUpdate(nodeAllocatable),
	},
}

func nodeAllocatable(d walk.Device, _ Pass) (errs field.ErrorList) {
	if len(d.NodeAllocatableResources) == 0 || !d.Checked() {
		return nil
	}
	list := d.At("nodeAllocatableResources")
	for _, name := range form.KeysOf(d.NodeAllocatableResources, func(corev1.ResourceName, resourceapi.NodeAllocatableResource) bool { return true }) {
		at, taken := list.Key(string(name)), d.NodeAllocatableResources[name]
		if m := taken.Mapping; m != nil && d.Declared() && (m.CapacityKey == nil) == (m.DeviceMultiplier == nil) {
			errs = append(errs, field.Invalid(at.Child("mapping"), "", "exactly one of capacityKey and deviceMultiplier must be set"))
		}
		if d.PassedOver {
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
			errs = append(errs, field.Required(at.Child("capacityMultiplier"), "is required with capacityKey"))
		} else {
			errs = append(errs, positive(at.Child("capacityMultiplier"), *m.CapacityMultiplier)...)
		}
	} else if m.CapacityMultiplier != nil {
		errs = append(errs, field.Required(at.Child("capacityKey"), "is required with capacityMultiplier"))
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
