package apiserver

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

const patchSource = "KEP-5027, "

var patchDevices = field.NewPath("spec", "devices")

// patchMirror are the rules that the schema of the CustomResourceDefinition has too.
var patchMirror = Table[*v1alpha1.ResourceSlicePatch]{
	{
		ID: "patch-name-qualified",
		Doc: `The names in a patch have a domain: gpu.example.com/model.

A DNS subdomain of at most 63 bytes, a slash, and a C identifier of at most 32 bytes.
A patch can apply to devices of several drivers, so a name needs its domain.`,
		Source: patchSource + "DevicePatch.Attributes, FullyQualifiedName",
		Check:  patchNames,
	},
	{
		ID: "patch-names-max",
		Doc: `A patch has at most 32 attributes and capacities together.

A device has the same limit.`,
		Source: patchSource + "DevicePatch.Attributes; ResourceSliceMaxAttributesAndCapacitiesPerDevice",
		Check:  patchNamesMax,
	},
	{
		ID: "patch-value",
		Doc: `An attribute in a patch has exactly one value, or "null": {}.

Two values contradict each other, and an absent value can be a mistake or a type that this
version does not know. To remove an attribute write "null": {} with the quotes: YAML reads a
bare null as no key.`,
		Source: patchSource + "NullableDeviceAttribute",
		Check:  patchValue,
	},
	{
		ID: "patch-selectors",
		Doc: `The filter of a patch has at most 32 selectors, and each is a CEL expression.

No other form of selector exists yet; a selector without cel selects nothing.`,
		Source: patchSource + "DevicePatchFilter.Selectors; DeviceSelectorsMaxSize",
		Check:  patchSelectors,
	},
}

func patchNames(p *v1alpha1.ResourceSlicePatch, _ Pass) (errs field.ErrorList) {
	report := func(list string, name resourceapi.FullyQualifiedName) {
		domain, id, qualified := strings.Cut(string(name), "/")
		at := patchDevices.Child(list).Key(string(name))
		if !qualified {
			errs = append(errs, field.Invalid(at, string(name), "write the domain before it, with a slash: gpu.example.com/"+string(name)))
			return
		}
		errs = append(errs, form.TooLongName(at, domain, resourceapi.DeviceMaxDomainLength)...)
		errs = append(errs, form.AllOf(at, domain, validation.IsDNS1123Subdomain(domain))...)
		errs = append(errs, form.Identifier(at, id)...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Attributes)) {
		report("attributes", name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Capacity)) {
		report("capacity", name)
	}
	return errs
}

func patchNamesMax(p *v1alpha1.ResourceSlicePatch, _ Pass) field.ErrorList {
	return form.Total(patchDevices, "attributes and capacities", len(p.Spec.Devices.Attributes)+len(p.Spec.Devices.Capacity),
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

func patchValue(p *v1alpha1.ResourceSlicePatch, _ Pass) field.ErrorList {
	return patchAttributes(p, func(at *field.Path, a v1alpha1.NullableDeviceAttribute) field.ErrorList {
		set, _ := form.Members(&a.DeviceAttribute)
		if a.NullValue != nil {
			set++
		}
		if set != 1 {
			return field.ErrorList{field.Invalid(at, set, `must have exactly one of int, bool, string, version, a list of these, or "null": {} to remove the attribute`)}
		}
		return form.EmptyLists(at, &a.DeviceAttribute)
	})
}

func patchSelectors(p *v1alpha1.ResourceSlicePatch, c Pass) field.ErrorList {
	if p.Spec.Devices.Filter == nil {
		return nil
	}
	list, at := p.Spec.Devices.Filter.Selectors, patchDevices.Child("filter", "selectors")
	errs := form.AtMost(at, len(list), resourceapi.DeviceSelectorsMaxSize)
	return append(errs, selectorForm(walk.CheckedSelectors(at, list, c.server), c)...)
}
