package review

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// checkProtectedLabels returns an error for each key that is invalid or that the API
// server protects already.
func checkProtectedLabels(p v1alpha1.ProtectedLabels) error {
	at := field.NewPath("protectedLabels")
	var errs []error
	for i, key := range p.Keys {
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at.Child("keys").Index(i), key, strings.Join(wrong, "; ")))
		}
		if key == corev1.LabelMetadataName {
			errs = append(errs, field.Invalid(at.Child("keys").Index(i), key, "the API server protects it; select by names"))
		}
	}
	if p.Tenant != "" && !slices.Contains(p.Keys, p.Tenant) {
		errs = append(errs, field.Invalid(at.Child("tenant"), p.Tenant, "must be one of protectedLabels.keys: otherwise any user who may label a namespace could leave the tenant"))
	}
	return errors.Join(errs...)
}

// TenantLabel is the key of the label of namespaces whose value names their tenant; empty
// means that each namespace is a tenant.
func (r Reviewer) TenantLabel() string { return r.protected.Tenant }

// checkNamespaces refuses what no namespace is named, such as a pattern: it would match nothing. An empty name matches
// nothing either, and does not look like a pattern.
func checkNamespaces(names []string, at *field.Path) error {
	var errs []error
	for i, name := range names {
		if name != "" && len(validation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), name, "no namespace has this name, and patterns are not supported: list the names, or select by a protected label (namespaceSelector)"))
		}
	}
	return errors.Join(errs...)
}

// protectedSelector parses a selector of namespaces; nil means none. It rejects labels that
// are not protected: any user who may label a namespace could match such a selector.
func protectedSelector(p v1alpha1.ProtectedLabels, s *metav1.LabelSelector, at *field.Path) (labels.Selector, error) {
	if s == nil {
		return nil, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, field.Invalid(at, field.OmitValueType{}, err.Error())
	}
	requirements, _ := selector.Requirements()
	if len(requirements) == 0 {
		return nil, field.Required(at, "select by a label; an empty selector selects all")
	}
	var errs []error
	for _, r := range requirements {
		if !slices.Contains(p.Keys, r.Key()) {
			errs = append(errs, field.Invalid(at, r.Key(), "the label is not protected, so any user who may label a namespace could match this selector: list it in protectedLabels.keys, or select by names"))
		}
	}
	return selector, errors.Join(errs...)
}
