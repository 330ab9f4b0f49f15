package validate

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const (
	patchServer = "the same, by the schema of the CustomResourceDefinition"
	patchSource = "KEP-5027, "
)

var patchDevices = field.NewPath("spec", "devices")

// ResourceSlicePatch lists the rules for ResourceSlicePatches. Append yours here and
// put its examples into examples/<ID>.txtar.
var ResourceSlicePatch = slices.Concat(lift(patchMetadata, metadataRules), Table[*v1alpha1.ResourceSlicePatch]{
	{
		ID: "patch-name-qualified",
		Doc: `The names in a patch have their domain: gpu.example.com/model.

A DNS subdomain of at most 63 bytes, a slash, and a C identifier of at most 32 bytes.
A patch may apply to devices of several drivers, so that a name alone says nothing.`,
		Class:  Mirror,
		Server: patchServer,
		Source: patchSource + "DevicePatch.Attributes, FullyQualifiedName",
		Check:  patchNames,
	},
	{
		ID: "patch-names-max",
		Doc: `A patch has at most 32 attributes and capacities together.

That is as many as a device may have.`,
		Class:  Mirror,
		Server: patchServer,
		Source: patchSource + "DevicePatch.Attributes; ResourceSliceMaxAttributesAndCapacitiesPerDevice",
		Check:  patchNamesMax,
	},
	{
		ID: "patch-value",
		Doc: `An attribute in a patch has exactly one value, or "null": {}.

Two values contradict each other, and with none nobody can tell a forgotten value from
one that this version does not know. To remove an attribute write "null": {} with the
quotes: YAML takes a bare null for no key at all.`,
		Class:  Mirror,
		Server: patchServer,
		Source: patchSource + "NullableDeviceAttribute",
		Check:  patchValue,
	},
	{
		ID: "patch-value-form",
		Doc: `A text or version in a patch has at most 64 bytes, and a version is one.

Expressions fail for a device that has an attribute which is no version although it says
so, whatever they ask for.`,
		Class:  Gap,
		Server: "refuses more than 64 characters, which may be more bytes; does not look at versions",
		Source: "DeviceAttributeMaxValueLength, DeviceAttribute.VersionValue",
		Check:  patchValueForm,
	},
	{
		ID: "patch-capacity-policy",
		Doc: `The request policy of a capacity in a patch is one that a slice could have.

Its default and its values lie within the capacity and agree with each other; see the
rules whose names begin with capacity.`,
		Class:  Gap,
		Server: "does not look",
		Source: "KEP-5075, CapacityRequestPolicy",
		Check:  patchCapacityPolicy,
	},
	{
		ID: "patch-filter-names",
		Doc: `The filter of a patch names class, driver, pool and device as they can be named.

Another name selects nothing, for ever.`,
		Class:  Gap,
		Server: "looks at the lengths only",
		Source: patchSource + "DevicePatchFilter",
		Check:  patchFilterNames,
	},
	{
		ID: "patch-selectors",
		Doc: `The filter of a patch has at most 32 selectors, and each is a CEL expression.

There is no other form of selector yet; one without cel selects nothing.`,
		Class:  Mirror,
		Server: patchServer,
		Source: patchSource + "DevicePatchFilter.Selectors; DeviceSelectorsMaxSize",
		Check:  patchSelectors,
	},
	{
		ID: "patch-expression",
		Doc: `The expressions of a patch compile to a bool, within 10240 bytes and a bound of cost.

The environment and the bounds are those of the selectors of claims. A patch with an
expression that does not compile applies to no device.`,
		Class:  Gap,
		Server: "looks at the length only",
		Source: patchSource + "Merging; CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check:  patchExpression,
	},
}, patchGaps)

func patchMetadata(p *v1alpha1.ResourceSlicePatch) metadata {
	return metadata{ObjectMeta: &p.ObjectMeta, numbered: true, named: true}
}

func patchNames(p *v1alpha1.ResourceSlicePatch, _ Conditions) (errs field.ErrorList) {
	report := func(list string, name resourceapi.FullyQualifiedName) {
		domain, id, qualified := strings.Cut(string(name), "/")
		at := patchDevices.Child(list).Key(string(name))
		if !qualified {
			errs = append(errs, field.Invalid(at, string(name), "write the domain before it, with a slash: gpu.example.com/"+string(name)))
			return
		}
		errs = append(errs, tooLong(at, len(domain), resourceapi.DeviceMaxDomainLength)...)
		errs = append(errs, allOf(at, domain, validation.IsDNS1123Subdomain(domain))...)
		errs = append(errs, identifier(at, id)...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Attributes)) {
		report("attributes", name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Capacity)) {
		report("capacity", name)
	}
	return errs
}

func patchNamesMax(p *v1alpha1.ResourceSlicePatch, _ Conditions) field.ErrorList {
	return total(patchDevices, "attributes and capacities", len(p.Spec.Devices.Attributes)+len(p.Spec.Devices.Capacity),
		resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
}

// patchAttributes reports what check finds in the attributes, in the order of their
// names.
func patchAttributes(p *v1alpha1.ResourceSlicePatch, check func(at *field.Path, a v1alpha1.NullableDeviceAttribute) field.ErrorList) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Attributes)) {
		errs = append(errs, check(patchDevices.Child("attributes").Key(string(name)), p.Spec.Devices.Attributes[name])...)
	}
	return errs
}

func patchValue(p *v1alpha1.ResourceSlicePatch, _ Conditions) field.ErrorList {
	return patchAttributes(p, func(at *field.Path, a v1alpha1.NullableDeviceAttribute) field.ErrorList {
		set, _ := members(&a.DeviceAttribute)
		if a.NullValue != nil {
			set++
		}
		if set != 1 {
			return field.ErrorList{field.Invalid(at, set, `must have exactly one of int, bool, string, version, a list of these, or "null": {} to remove the attribute`)}
		}
		return emptyLists(at, &a.DeviceAttribute)
	})
}

func patchValueForm(p *v1alpha1.ResourceSlicePatch, _ Conditions) field.ErrorList {
	return patchAttributes(p, func(at *field.Path, a v1alpha1.NullableDeviceAttribute) (errs field.ErrorList) {
		texts(&a.DeviceAttribute, func(text string, version bool, list string, index int) {
			at := at.Child(list)
			if index >= 0 {
				at = at.Index(index)
			}
			errs = append(errs, tooLong(at, len(text), resourceapi.DeviceAttributeMaxValueLength)...)
			if version && !semver.MatchString(text) {
				errs = append(errs, field.Invalid(at, text, "write the version as semver.org 2.0.0 says, such as 12.4.0"))
			}
		})
		return errs
	})
}

// patchCapacityPolicy lets the rules of slices judge a shared device that has nothing
// but the capacities of the patch.
func patchCapacityPolicy(p *v1alpha1.ResourceSlicePatch, c Conditions) field.ErrorList {
	shared, capacity := true, make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(p.Spec.Devices.Capacity))
	for name, value := range p.Spec.Devices.Capacity {
		capacity[resourceapi.QualifiedName(name)] = value
	}
	slice := &resourceapi.ResourceSlice{}
	slice.Spec.Devices = []resourceapi.Device{{Name: "patched", AllowMultipleAllocations: &shared, Capacity: capacity}}
	errs := capacityRules.Validate(slice, c)
	for _, err := range errs {
		err.Field = strings.Replace(err.Field, "spec.devices[patched].", "spec.devices.", 1)
	}
	return errs
}

func patchFilterNames(p *v1alpha1.ResourceSlicePatch, c Conditions) (errs field.ErrorList) {
	filter, at := p.Spec.Devices.Filter, patchDevices.Child("filter")
	if filter == nil {
		return nil
	}
	for _, name := range [...]struct {
		field string
		value *string
		check func(at *field.Path, name string) field.ErrorList
	}{
		{"deviceClassName", filter.DeviceClassName, func(at *field.Path, name string) field.ErrorList {
			return allOf(at, name, validation.IsDNS1123Subdomain(name))
		}},
		{"driver", filter.Driver, func(at *field.Path, name string) field.ErrorList { return referredDriver(at, name, c) }},
		{"pool", filter.Pool, referredPool},
		{"device", filter.Device, label},
	} {
		if name.value != nil {
			errs = append(errs, name.check(at.Child(name.field), *name.value)...)
		}
	}
	return errs
}

func patchSelectors(p *v1alpha1.ResourceSlicePatch, c Conditions) field.ErrorList {
	if p.Spec.Devices.Filter == nil {
		return nil
	}
	list, at := p.Spec.Devices.Filter.Selectors, patchDevices.Child("filter", "selectors")
	errs := atMost(at, len(list), resourceapi.DeviceSelectorsMaxSize)
	return append(errs, selectorForm(judgedSelectors(at, list, c), c)...)
}

func patchExpression(p *v1alpha1.ResourceSlicePatch, c Conditions) field.ErrorList {
	if p.Spec.Devices.Filter == nil {
		return nil
	}
	return selectorExpression(judgedSelectors(patchDevices.Child("filter", "selectors"), p.Spec.Devices.Filter.Selectors, c), c)
}
