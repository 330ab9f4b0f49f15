package validate

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// attributeValueRules are the rules for what stands in an attribute.
var attributeValueRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "attribute-value",
		Doc: `An attribute has exactly one value, or one list that is not empty.

Selectors read it by its type: with none they find nothing, with two they could find
either.`,
		Class:  Mirror,
		Server: "the same, since 1.31; lists since 1.36",
		Source: "KEP-4381, KEP-5491, DeviceAttribute",
		Check:  attributeValue,
	},
}

func attributeValue(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		list := at.Child("attributes")
		for _, name := range slices.Sorted(maps.Keys(device.Attributes)) {
			attribute := device.Attributes[name]
			errs = append(errs, oneValue(list.Key(string(name)), &attribute, c)...)
		}
	}
	return errs
}

func oneValue(at *field.Path, a *resourceapi.DeviceAttribute, c Conditions) (errs field.ErrorList) {
	values := 0
	for _, set := range []bool{a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil} {
		if set {
			values++
		}
	}
	for _, list := range []struct {
		name     string
		set, any bool
	}{
		{"bools", a.BoolValues != nil, len(a.BoolValues) > 0},
		{"ints", a.IntValues != nil, len(a.IntValues) > 0},
		{"strings", a.StringValues != nil, len(a.StringValues) > 0},
		{"versions", a.VersionValues != nil, len(a.VersionValues) > 0},
	} {
		if list.set && c.Profile.Since(36) { // an older server does not know the field
			values++
			if !list.any {
				errs = append(errs, field.Invalid(at.Child(list.name), "[]", "must not be empty"))
			}
		}
	}
	switch {
	case values == 1:
	case values == 0 && !c.Profile.Since(35):
		errs = append(errs, field.Required(at, "exactly one value must be set"))
	default:
		errs = append(errs, field.Invalid(at, values, "exactly one value must be set"))
	}
	return errs
}
