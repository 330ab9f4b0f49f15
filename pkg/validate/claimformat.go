package validate

import (
	"context"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidate "k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// judged returns the items of a list that an API server looks at: none of a list
// that is too long. 1.34 looked at all of them nevertheless.
func judged[T any](list []T, limit int, c Conditions) []T {
	if c.Profile.Since(35) {
		return bounded(list, limit)
	}
	return list
}

// duplicate is the place of an item that is there already; child is what 1.34 added
// to it.
func duplicate(at *field.Path, child string, c Conditions) *field.Path {
	if c.Profile.Since(35) {
		return at
	}
	return at.Child(child)
}

// allOf makes errors of messages about a value.
func allOf(at *field.Path, value string, messages []string) (errs field.ErrorList) {
	for _, message := range messages {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

// referredDriver reports a text that cannot be the name of a driver.
func referredDriver(at *field.Path, name string, c Conditions) (errs field.ErrorList) {
	if name == "" {
		errs = append(errs, field.Required(at, "name the driver, such as gpu.example.com"))
		if c.Profile.Since(35) {
			return errs
		}
	}
	errs = append(errs, tooLong(at, len(name), resourceapi.DriverNameMaxLength)...)
	return append(errs, allOf(at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))...)
}

// referredPool reports a text that cannot be the name of a pool.
func referredPool(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "name the pool of the device")}
	}
	errs = tooLong(at, len(name), resourceapi.PoolNameMaxLength)
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, allOf(at, part, validation.IsDNS1123Subdomain(part))...)
	}
	return errs
}

// referredAttribute reports a text that cannot be the name of an attribute with its
// domain. Names with two or more slashes pass, as they do upstream.
func referredAttribute(at *field.Path, name resourceapi.FullyQualifiedName, c Conditions) (errs field.ErrorList) {
	domain, id, qualified := strings.Cut(string(name), "/")
	switch {
	case !c.Profile.Since(35) && name == "":
		return field.ErrorList{field.Required(at, "name the attribute, such as gpu.example.com/model")}
	case strings.Contains(id, "/"):
	case qualified:
		errs = append(errs, referredPart(at, domain, c, func() field.ErrorList { return referredDriver(at, domain, c) })...)
		errs = append(errs, referredPart(at, id, c, func() field.ErrorList { return identifier(at, id) })...)
	default:
		errs = append(identifier(at, domain), field.Invalid(at, name, "write the attribute with its domain, such as gpu.example.com/model"))
	}
	return errs
}

// referredPart reports an empty part of a name, or what check finds.
func referredPart(at *field.Path, part string, c Conditions, check func() field.ErrorList) field.ErrorList {
	switch {
	case part != "":
		return check()
	case c.Profile.Since(35):
		return field.ErrorList{field.Invalid(at, part, "neither the domain nor the name may be empty")}
	default:
		return field.ErrorList{field.Required(at, "neither the domain nor the name may be empty")}
	}
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
