package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// checkProtectedLabels refuses keys that are none, and labels that nobody may change.
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
	if len(p.Keys) > 0 && len(p.Users)+len(p.Groups) == 0 {
		errs = append(errs, field.Required(at, "name users or groups who may change the labels"))
	}
	return errors.Join(errs...)
}

// protectedSelector reads a selector of namespaces, nil for none. It refuses labels that
// are not protected: whoever may label a namespace would select it.
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
			errs = append(errs, field.Invalid(at, r.Key(), "the label is not protected, so that whoever may label a namespace would select it: list it in protectedLabels.keys, or select by names"))
		}
	}
	return selector, errors.Join(errs...)
}

// LabelChange returns an error if a user may not change the labels of a namespace from
// one set to another; a new namespace has none before. Who only observes refuses nothing.
func (r Reviewer) LabelChange(user authenticationv1.UserInfo, before, after map[string]string) error {
	p := r.protected
	if r.observes || slices.Contains(p.Users, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(p.Groups, group) }) {
		return nil
	}
	var changed []string
	for _, key := range p.Keys {
		old, had := before[key]
		value, has := after[key]
		if had != has || old != value {
			changed = append(changed, key)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	slices.Sort(changed)
	return fmt.Errorf("policies and exemptions select namespaces by the label %s, so that only who is named in protectedLabels of dra-steward's configuration may set, change or remove it; %q is not: ask one of them",
		strings.Join(changed, ", "), user.Username)
}
