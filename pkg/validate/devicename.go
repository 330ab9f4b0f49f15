package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// deviceRules are the rules for a device as a whole.
var deviceRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "device-name",
		Doc: `The name of a device is a DNS label.

At most 63 bytes of lower case letters, digits and "-", with a letter or digit at
both ends. Allocation results and taint rules refer to devices by this name.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, Device.Name",
		Check:  eachDevice(deviceName),
	},
	{
		ID: "device-name-unique",
		Doc: `No two devices of a slice have the same name.

An allocation names a device by driver, pool and name. The second of two could be
handed out while the first is in use.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, Device.Name",
		Check:  eachDevice(deviceNameUnique),
	},
	{
		ID: "device-attributes-max",
		Doc: `A device has at most 32 attributes and capacities together.

Every CEL selector that looks at the device sees all of them. The site limit is
attributesAndCapacitiesPerDevice.`,
		Class:  Limit,
		Server: "the same, since 1.31",
		Source: "KEP-4381, ResourceSliceMaxAttributesAndCapacitiesPerDevice",
		Check:  eachDevice(deviceAttributesMax),
	},
	{
		ID: "device-attribute-values-max",
		Doc: `The attributes of a device have at most 48 values together.

An attribute with a single value counts one, an attribute with a list counts one
for each item. The site limit is attributeValuesPerDevice.`,
		Class:  Limit,
		Server: "the same, since 1.36",
		Source: "KEP-5491, ResourceSliceMaxAttributeValuesPerDevice",
		Check:  eachDevice(deviceAttributeValuesMax),
	},
	{
		ID: "device-taints-max",
		Doc: `A device carries at most 16 taints.

Every consumer of a slice visits all taints of all its devices, so the cost of one
over-tainted device is paid by the scheduler and the evictor alike. Taints of
DeviceTaintRules come on top and are not counted here. The site limit is
taintsPerDevice.`,
		Class:  Limit,
		Server: "16 since 1.35, 4 before; since 1.35 not looked at while they do not change",
		Source: "KEP-5055, DeviceTaintsMaxLength",
		Check:  eachDevice(deviceTaintsMax),
		Update: eachDeviceUpdate(deviceTaintsMax),
	},
}

func deviceName(d device, _ Conditions) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1123Label(d.Name) {
		errs = append(errs, field.Invalid(d.at("name"), d.Name, message))
	}
	return errs
}

func deviceNameUnique(d device, c Conditions) field.ErrorList {
	if d.list.places.isFirst(d.index) {
		return nil
	}
	return field.ErrorList{field.Duplicate(duplicate(d.at(), "name", c), d.Name)}
}

func deviceAttributesMax(d device, c Conditions) field.ErrorList {
	n, limit := len(d.Attributes)+len(d.Capacity), c.Limits.AttributesAndCapacitiesPerDevice
	if n <= limit {
		return nil
	}
	return total(d.at(), "attributes and capacities", n, limit)
}

func deviceAttributeValuesMax(d device, c Conditions) field.ErrorList {
	n, limit := 0, c.Limits.AttributeValuesPerDevice
	for _, a := range d.Attributes {
		n += max(1, len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if n <= limit {
		return nil
	}
	return total(d.at(), "attribute values", n, limit)
}

func deviceTaintsMax(d device, c Conditions) field.ErrorList {
	if len(d.Taints) <= c.Limits.TaintsPerDevice || d.sameTaints() {
		return nil
	}
	return atMost(d.at("taints"), len(d.Taints), c.Limits.TaintsPerDevice)
}

// sameTaints tells whether the API server passes over the taints of a device, since
// they are those that are stored.
func (d device) sameTaints() bool {
	return d.before != nil && d.list.profile.Since(35) && slices.EqualFunc(d.before.Taints, d.Taints, equalTaint)
}

func equalTaint(a, b resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect && a.TimeAdded.Equal(b.TimeAdded)
}
