package validate

import (
	"regexp"

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
		Check:  everyDevice(attributeValue),
		Update: everyDeviceUpdate(attributeValue),
	},
	{
		ID: "attribute-value-length",
		Doc: `A text or version in an attribute has at most 64 bytes.

That holds for every item of a list as well.`,
		Class:  Mirror,
		Server: "the same, since 1.31; lists since 1.36",
		Source: "KEP-4381, DeviceAttributeMaxValueLength",
		Check:  eachDevice(attributeValueLength),
	},
	{
		ID: "attribute-version",
		Doc: `A version in an attribute is written as semver.org 2.0.0 says.

Three numbers with dots between, then what a preview and a build add: 12.4.0-rc.1.
Selectors compare versions by their parts, which they cannot find in another text.`,
		Class:  Mirror,
		Server: "the same, since 1.31; lists since 1.36",
		Source: "KEP-4381, DeviceAttribute.VersionValue",
		Check:  eachDevice(attributeVersion),
	},
}

func attributeValue(d device, c Conditions) (errs field.ErrorList) {
	bad := keysOf(d.Attributes, func(_ resourceapi.QualifiedName, a resourceapi.DeviceAttribute) bool {
		set, filled := members(&a)
		return set != 1 || filled != 1
	})
	for _, name := range bad {
		attribute := d.Attributes[name]
		set, filled := members(&attribute)
		list := d.at("attributes")
		at := key(list, string(name))
		if !d.passedOver {
			errs = append(errs, emptyLists(at, &attribute)...)
			errs = append(errs, oneValue(at, set, c)...)
		}
		// Declarative validation takes an empty list for none, and the key as it is.
		full := list.Key(string(name))
		if filled != 1 && (d.passedOver || set == 1 || at.String() != full.String()) && d.declared() {
			errs = append(errs, oneValue(full, filled, c)...)
		}
	}
	return errs
}

// members counts the fields of an attribute that are set, and those that are not empty.
func members(a *resourceapi.DeviceAttribute) (set, filled int) {
	for _, is := range [...]bool{a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil} {
		if is {
			set++
			filled++
		}
	}
	for _, list := range lists(a) {
		if list.set {
			set++
		}
		if list.length > 0 {
			filled++
		}
	}
	return set, filled
}

// An attributeList is a list of values in an attribute.
type attributeList struct {
	name   string
	set    bool
	length int
}

func lists(a *resourceapi.DeviceAttribute) [4]attributeList {
	return [4]attributeList{
		{"bools", a.BoolValues != nil, len(a.BoolValues)},
		{"ints", a.IntValues != nil, len(a.IntValues)},
		{"strings", a.StringValues != nil, len(a.StringValues)},
		{"versions", a.VersionValues != nil, len(a.VersionValues)},
	}
}

func emptyLists(at *field.Path, a *resourceapi.DeviceAttribute) (errs field.ErrorList) {
	for _, list := range lists(a) {
		if list.set && list.length == 0 {
			errs = append(errs, field.Invalid(at.Child(list.name), "[]", "must not be empty"))
		}
	}
	return errs
}

func oneValue(at *field.Path, values int, c Conditions) field.ErrorList {
	const message = "exactly one value must be set"
	switch {
	case values == 1:
		return nil
	case values == 0 && !c.Profile.Since(35):
		return field.ErrorList{field.Required(at, message)}
	default:
		return field.ErrorList{field.Invalid(at, values, message)}
	}
}

func attributeValueLength(d device, _ Conditions) field.ErrorList {
	return badTexts(d, func(text string, _ bool) bool { return len(text) > resourceapi.DeviceAttributeMaxValueLength },
		func(at *field.Path, text string) *field.Error {
			return tooLong(at, len(text), resourceapi.DeviceAttributeMaxValueLength)[0]
		})
}

func attributeVersion(d device, _ Conditions) field.ErrorList {
	return badTexts(d, func(text string, version bool) bool { return version && !semver.MatchString(text) },
		func(at *field.Path, text string) *field.Error {
			return field.Invalid(at, text, "write the version as semver.org 2.0.0 says, such as 12.4.0")
		})
}

// badTexts reports the texts and versions in the attributes of a device that are bad.
func badTexts(d device, bad func(text string, version bool) bool, report func(at *field.Path, text string) *field.Error) (errs field.ErrorList) {
	for _, name := range keysOf(d.Attributes, func(_ resourceapi.QualifiedName, a resourceapi.DeviceAttribute) bool {
		found := false
		texts(&a, func(text string, version bool, _ string, _ int) { found = found || bad(text, version) })
		return found
	}) {
		a, at := d.Attributes[name], key(d.at("attributes"), string(name))
		texts(&a, func(text string, version bool, list string, index int) {
			switch {
			case !bad(text, version):
			case index < 0:
				errs = append(errs, report(at.Child(list), text))
			default:
				errs = append(errs, report(at.Child(list).Index(index), text))
			}
		})
	}
	return errs
}

// texts visits the values of an attribute that are written as text, with their field
// and their index in it, -1 for a single value.
func texts(a *resourceapi.DeviceAttribute, visit func(text string, version bool, list string, index int)) {
	if a.StringValue != nil {
		visit(*a.StringValue, false, "string", -1)
	}
	if a.VersionValue != nil {
		visit(*a.VersionValue, true, "version", -1)
	}
	for i, text := range a.StringValues {
		visit(text, false, "strings", i)
	}
	for i, text := range a.VersionValues {
		visit(text, true, "versions", i)
	}
}

// semver is the form of semver.org 2.0.0, as the API server has it.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
