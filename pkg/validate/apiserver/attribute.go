package apiserver

import (
	"context"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidate "k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// attributeRules are the rules for the single attributes and capacities of the
// devices of a slice.
var attributeRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "attribute-name",
		Doc: `The name of an attribute or capacity is a C identifier, with or without a domain.

The identifier has at most 32 bytes; the domain before the slash is a DNS subdomain
of at most 63 bytes. Without a domain the name belongs to the driver's own domain.`,
		Upstream: "the same, since 1.31; does not check names with two or more slashes; since 1.37 an unchanged capacity is not checked",
		Source:   "KEP-4381, QualifiedName, DeviceMaxDomainLength, DeviceMaxIDLength",
		Check:    eachDevice(attributeName),
		Update:   eachDeviceUpdate(attributeName),
	},
}

func attributeName(d walk.Device, c Pass) field.ErrorList {
	errs := badKeys(d, "attributes", d.Attributes, c)
	if capacities := badKeys(d, "capacity", d.Capacity, c); len(capacities) > 0 && !d.SameCapacity() {
		errs = append(errs, capacities...)
	}
	return errs
}

// badKeys reports the keys of a map that are no names of attributes: at the map, and
// until 1.35 at the key.
func badKeys[V any](d walk.Device, list string, values map[resourceapi.QualifiedName]V, c Pass) (errs field.ErrorList) {
	bad := form.KeysOf(values, func(name resourceapi.QualifiedName, _ V) bool { return !form.PlainName(string(name)) })
	for _, name := range bad {
		at := d.At(list)
		if !c.Profile.Since(36) {
			at = form.Key(at, string(name))
		}
		errs = append(errs, form.QualifiedName(at, string(name), c.server)...)
	}
	return errs
}

// attributeValueRules are the rules for the values of an attribute.
var attributeValueRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "attribute-value",
		Doc: `An attribute has exactly one value, or one list that is not empty.

Selectors read an attribute by its type. Without a value they find nothing; with two the
result is ambiguous.`,
		Upstream: "the same, since 1.31; lists since 1.36",
		Source:   "KEP-4381, KEP-5491, DeviceAttribute",
		Check:    everyDevice(attributeValue),
		Update:   everyDeviceUpdate(attributeValue),
	},
	{
		ID: "attribute-value-length",
		Doc: `A string or version in an attribute has at most 64 bytes.

The limit applies to every item of a list as well.`,
		Upstream: "the same, since 1.31; lists since 1.36",
		Source:   "KEP-4381, DeviceAttributeMaxValueLength",
		Check:    eachDevice(attributeValueLength),
	},
	{
		ID: "attribute-version",
		Doc: `A version in an attribute is a semantic version (semver.org 2.0.0).

It has three numbers, separated by dots, and optional pre-release and build parts:
12.4.0-rc.1. Selectors compare versions part by part.`,
		Upstream: "the same, since 1.31; lists since 1.36",
		Source:   "KEP-4381, DeviceAttribute.VersionValue",
		Check:    eachDevice(attributeVersion),
	},
}

func attributeValue(d walk.Device, c Pass) (errs field.ErrorList) {
	bad := form.KeysOf(d.Attributes, func(_ resourceapi.QualifiedName, a resourceapi.DeviceAttribute) bool {
		set, filled := form.Members(&a)
		return set != 1 || filled != 1
	})
	for _, name := range bad {
		attribute := d.Attributes[name]
		set, filled := form.Members(&attribute)
		list := d.At("attributes")
		at := form.Key(list, string(name))
		if !d.PassedOver {
			errs = append(errs, form.EmptyLists(at, &attribute)...)
			errs = append(errs, oneValue(at, set, c)...)
		}
		// Declarative validation takes an empty list for none, and the key as it is.
		full := list.Key(string(name))
		if filled != 1 && (d.PassedOver || set == 1 || at.String() != full.String()) && d.Declared() {
			errs = append(errs, oneValue(full, filled, c)...)
		}
	}
	return errs
}

func oneValue(at *field.Path, values int, c Pass) field.ErrorList {
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

func attributeValueLength(d walk.Device, _ Pass) field.ErrorList {
	return badTexts(d, func(text string, _ bool) bool { return len(text) > resourceapi.DeviceAttributeMaxValueLength },
		func(at *field.Path, text string) *field.Error {
			return form.TooLong(at, len(text), resourceapi.DeviceAttributeMaxValueLength)[0]
		})
}

func attributeVersion(d walk.Device, _ Pass) field.ErrorList {
	return badTexts(d, func(text string, version bool) bool { return version && !form.Semver.MatchString(text) },
		func(at *field.Path, text string) *field.Error {
			return field.Invalid(at, text, "must be a semantic version (semver.org 2.0.0), such as 12.4.0")
		})
}

// badTexts reports the texts and versions in the attributes of a device that are bad.
func badTexts(d walk.Device, bad func(text string, version bool) bool, report func(at *field.Path, text string) *field.Error) (errs field.ErrorList) {
	for _, name := range form.KeysOf(d.Attributes, func(_ resourceapi.QualifiedName, a resourceapi.DeviceAttribute) bool {
		found := false
		form.Texts(&a, func(text string, version bool, _ string, _ int) { found = found || bad(text, version) })
		return found
	}) {
		a, at := d.Attributes[name], form.Key(d.At("attributes"), string(name))
		form.Texts(&a, func(text string, version bool, list string, index int) {
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

// duplicate is the place of an item that exists already; child is what 1.34 added to it.
func duplicate(at *field.Path, child string, c Pass) *field.Path {
	if c.Profile.Since(35) {
		return at
	}
	return at.Child(child)
}

// referredAttribute reports a text that cannot be the name of an attribute with its
// domain. Names with two or more slashes pass, as they do upstream.
func referredAttribute(at *field.Path, name resourceapi.FullyQualifiedName, c Pass) (errs field.ErrorList) {
	domain, id, qualified := strings.Cut(string(name), "/")
	switch {
	case !c.Profile.Since(35) && name == "":
		return field.ErrorList{field.Required(at, "name the attribute, such as gpu.example.com/model")}
	case strings.Contains(id, "/"):
	case qualified:
		errs = append(errs, form.NamePart(at, domain, c.server, func() field.ErrorList { return form.Driver(at, domain, c.server) })...)
		errs = append(errs, form.NamePart(at, id, c.server, func() field.ErrorList { return form.Identifier(at, id) })...)
	default:
		errs = append(form.Identifier(at, domain), field.Invalid(at, name, "write the attribute with its domain, such as gpu.example.com/model"))
	}
	return errs
}

// declaredAttribute is what declarative validation says of the name of an attribute.
// It knows lower case only.
func declaredAttribute(at *field.Path, name resourceapi.FullyQualifiedName) field.ErrorList {
	return apivalidate.ResourceFullyQualifiedName(context.Background(), operation.Operation{}, at, &name, nil)
}

// shareID reports a text that is no UUID in its normal form.
func shareID(at *field.Path, id string) field.ErrorList {
	return apivalidate.UUID(context.Background(), operation.Operation{}, at, &id, nil)
}
