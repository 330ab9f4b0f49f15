package validate

import (
	"iter"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// attributeRules are the rules for the single attributes and capacities of the
// devices of a slice.
var attributeRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "attribute-name",
		Doc: `The name of an attribute or capacity is a C identifier, with or without a domain.

The identifier has at most 32 bytes; the domain before the slash is a DNS subdomain
of at most 63 bytes. Without a domain the name belongs to the driver's own domain.`,
		Class:  Mirror,
		Server: "the same, since 1.31; names with two or more slashes pass it unchecked",
		Source: "KEP-4381, QualifiedName, DeviceMaxDomainLength, DeviceMaxIDLength",
		Check:  attributeName,
	},
	{
		ID: "attribute-value-length",
		Doc: `A text or version in an attribute has at most 64 bytes.

That holds for every item of a list as well.`,
		Class:  Mirror,
		Server: "the same, since 1.31; lists since 1.36",
		Source: "KEP-4381, DeviceAttributeMaxValueLength",
		Check:  attributeValueLength,
	},
}

func attributeName(slice *resourceapi.ResourceSlice, _ Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		for _, name := range slices.Sorted(maps.Keys(device.Attributes)) {
			errs = append(errs, qualifiedName(at.Child("attributes"), string(name))...)
		}
		for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
			errs = append(errs, qualifiedName(at.Child("capacity"), string(name))...)
		}
	}
	return errs
}

// qualifiedName checks the key of a map; as the API server does, it reports at the
// map and lets more than one slash pass.
func qualifiedName(at *field.Path, name string) field.ErrorList {
	domain, id, qualified := strings.Cut(name, "/")
	switch {
	case !qualified:
		return identifier(at, name)
	case strings.Contains(id, "/"):
		return nil
	}
	return append(attributeDomain(at, domain), attributeID(at, id)...)
}

func attributeDomain(at *field.Path, domain string) field.ErrorList {
	if domain == "" {
		return field.ErrorList{field.Invalid(at, "", "the domain must not be empty")}
	}
	errs := tooLong(at, len(domain), resourceapi.DeviceMaxDomainLength)
	for _, message := range validation.IsDNS1123Subdomain(strings.ToLower(domain)) {
		errs = append(errs, field.Invalid(at, domain, message))
	}
	return errs
}

func attributeID(at *field.Path, id string) field.ErrorList {
	if id == "" {
		return field.ErrorList{field.Invalid(at, "", "the name must not be empty")}
	}
	return identifier(at, id)
}

func identifier(at *field.Path, id string) field.ErrorList {
	errs := tooLong(at, len(id), resourceapi.DeviceMaxIDLength)
	for _, message := range content.IsCIdentifier(id) {
		errs = append(errs, field.Invalid(at, id, message))
	}
	return errs
}

func attributeValueLength(slice *resourceapi.ResourceSlice, _ Conditions) (errs field.ErrorList) {
	for at, device := range Devices(slice) {
		for _, name := range slices.Sorted(maps.Keys(device.Attributes)) {
			attribute := device.Attributes[name]
			for at, text := range texts(at.Child("attributes").Key(string(name)), &attribute) {
				errs = append(errs, tooLong(at, len(text), resourceapi.DeviceAttributeMaxValueLength)...)
			}
		}
	}
	return errs
}

// texts walks the values of an attribute that are written as text.
func texts(at *field.Path, a *resourceapi.DeviceAttribute) iter.Seq2[*field.Path, string] {
	return func(yield func(*field.Path, string) bool) {
		if a.StringValue != nil && !yield(at.Child("string"), *a.StringValue) {
			return
		}
		if a.VersionValue != nil && !yield(at.Child("version"), *a.VersionValue) {
			return
		}
		for i, text := range a.StringValues {
			if !yield(at.Child("strings").Index(i), text) {
				return
			}
		}
		for i, text := range a.VersionValues {
			if !yield(at.Child("versions").Index(i), text) {
				return
			}
		}
	}
}
