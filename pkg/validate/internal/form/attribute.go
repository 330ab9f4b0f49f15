// Package form checks the form of single values: names, attributes, the lengths of lists.
package form

import (
	"regexp"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Members counts the fields of an attribute that are set, and those that are not empty.
func Members(a *resourceapi.DeviceAttribute) (set, filled int) {
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

func EmptyLists(at *field.Path, a *resourceapi.DeviceAttribute) (errs field.ErrorList) {
	for _, list := range lists(a) {
		if list.set && list.length == 0 {
			errs = append(errs, field.Invalid(at.Child(list.name), "[]", "must not be empty"))
		}
	}
	return errs
}

// Texts visits the values of an attribute that are written as text, with their field
// and their index in it, -1 for a single value.
func Texts(a *resourceapi.DeviceAttribute, visit func(text string, version bool, list string, index int)) {
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

// Semver is the form of semver.org 2.0.0, as the API server has it.
var Semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
