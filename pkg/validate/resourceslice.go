package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ResourceSlice lists the rules for ResourceSlices. Append yours here and put its
// examples into examples/<ID>.txtar.
var ResourceSlice = slices.Concat(sliceMetadata, slicePlaceRules, Table[*resourceapi.ResourceSlice]{
	{
		ID: "slice-devices-max",
		Doc: `A slice has at most 128 devices, or 64 when one of them needs more work.

A taint, a counter that is consumed or an attribute with a list of values on any
device of the slice halves the number, because every consumer of the slice walks
all of that. A driver that has more devices publishes several slices for its pool.
The site limits are devicesPerSlice and devicesPerAdvancedSlice; the lower one
counts for a slice with such a device.`,
		Class:  Limit,
		Server: "128; 64 with taints or counters since 1.35, with list attributes since 1.36",
		Source: "KEP-4381, KEP-5055, ResourceSliceMaxDevices, ResourceSliceMaxDevicesWithAdvancedFeatures",
		Check:  sliceDevicesMax,
	},
	{
		ID: "device-name",
		Doc: `The name of a device is a DNS label.

At most 63 bytes of lower case letters, digits and "-", with a letter or digit at
both ends. Allocation results and taint rules refer to devices by this name.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, Device.Name",
		Check:  deviceName,
	},
	{
		ID: "device-attributes-max",
		Doc: `A device has at most 32 attributes and capacities together.

Every CEL selector that looks at the device sees all of them. The site limit is
attributesAndCapacitiesPerDevice.`,
		Class:  Limit,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ResourceSliceMaxAttributesAndCapacitiesPerDevice",
		Check:  deviceAttributesMax,
	},
	{
		ID: "device-attribute-values-max",
		Doc: `The attributes of a device have at most 48 values together.

An attribute with a single value counts one, an attribute with a list counts one
for each item. The site limit is attributeValuesPerDevice.`,
		Class:  Limit,
		Server: "the same, since 1.36",
		Source: "KEP-5491, ResourceSliceMaxAttributeValuesPerDevice",
		Check:  deviceAttributeValuesMax,
	},
	{
		ID: "device-taints-max",
		Doc: `A device carries at most 16 taints.

Every consumer of a slice visits all taints of all its devices, so the cost of one
over-tainted device is paid by the scheduler and the evictor alike. Taints of
DeviceTaintRules come on top and are not counted here. The site limit is
taintsPerDevice.`,
		Class:  Limit,
		Server: "16 since 1.35, 4 before",
		Source: "KEP-5055, DeviceTaintsMaxLength",
		Check:  deviceTaintsMax,
	},
}, attributeValueRules, attributeRules, lift(sliceTaints, taintRules), sliceGaps, lift(sliceTaints, taintGaps), poolGaps)

func sliceDevicesMax(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
	limit := c.Limits.DevicesPerSlice
	if slices.ContainsFunc(slice.Spec.Devices, advanced) {
		limit = min(limit, c.Limits.DevicesPerAdvancedSlice)
	}
	return atMost(field.NewPath("spec", "devices"), len(slice.Spec.Devices), limit)
}

// advanced tells whether device has what lowers the number of devices in a slice.
func advanced(device resourceapi.Device) bool {
	if len(device.Taints) > 0 || len(device.ConsumesCounters) > 0 {
		return true
	}
	return hasLists(device)
}

// hasLists tells whether an attribute of device has a list of values.
func hasLists(device resourceapi.Device) bool {
	for _, a := range device.Attributes {
		if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}

func deviceName(slice *resourceapi.ResourceSlice, _ Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		for _, message := range validation.IsDNS1123Label(device.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), device.Name, message))
		}
	}
	return errs
}

func deviceAttributesMax(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		n := len(device.Attributes) + len(device.Capacity)
		errs = append(errs, total(at, "attributes and capacities", n, c.Limits.AttributesAndCapacitiesPerDevice)...)
	}
	return errs
}

func deviceAttributeValuesMax(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		n := 0
		for _, a := range device.Attributes {
			n += max(1, len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues))
		}
		errs = append(errs, total(at, "attribute values", n, c.Limits.AttributeValuesPerDevice)...)
	}
	return errs
}

func deviceTaintsMax(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		errs = append(errs, atMost(at.Child("taints"), len(device.Taints), c.Limits.TaintsPerDevice)...)
	}
	return errs
}
