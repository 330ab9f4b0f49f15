package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
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
}, deviceRules, attributeRules, attributeValueRules, capacityRules,
	counterRules, bindingRules, deviceNodeRules, nodeAllocatableRules, partitionRules, lift(slicePart, taintRules), sliceGaps, lift(sliceTaints, taintGaps), poolGaps, authorGaps)

func sliceDevicesMax(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
	limit := c.Limits.DevicesPerSlice
	if len(slice.Spec.Devices) > c.Limits.DevicesPerAdvancedSlice && slices.ContainsFunc(slice.Spec.Devices, advanced) {
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
