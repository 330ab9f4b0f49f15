package apiserver

import (
	"context"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidate "k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

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
