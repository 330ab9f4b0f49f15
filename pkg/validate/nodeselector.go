package validate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nodeSelector says of a node selector what ValidateNodeSelector of the API server
// says, which cannot be imported.
func nodeSelector(at *field.Path, selector *corev1.NodeSelector) (errs field.ErrorList) {
	terms := at.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(terms, "name at least one term; without one no node matches")}
	}
	for i, term := range selector.NodeSelectorTerms {
		for j, r := range term.MatchExpressions {
			errs = append(errs, labelRequirement(terms.Index(i).Child("matchExpressions").Index(j), r)...)
		}
		for j, r := range term.MatchFields {
			errs = append(errs, fieldRequirement(terms.Index(i).Child("matchFields").Index(j), r)...)
		}
	}
	return errs
}

func labelRequirement(at *field.Path, r corev1.NodeSelectorRequirement) (errs field.ErrorList) {
	values := at.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "operators In and NotIn compare with values"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values, "operators Exists and DoesNotExist take no values"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values, "operators Gt and Lt compare with one value"))
		}
	default:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "choose In, NotIn, Exists, DoesNotExist, Gt or Lt"))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
	for i, value := range r.Values {
		errs = append(errs, labelValue(values.Index(i), value)...)
	}
	return errs
}

func fieldRequirement(at *field.Path, r corev1.NodeSelectorRequirement) (errs field.ErrorList) {
	values := at.Child("values")
	switch {
	case r.Operator != corev1.NodeSelectorOpIn && r.Operator != corev1.NodeSelectorOpNotIn:
		errs = append(errs, field.Invalid(at.Child("operator"), r.Operator, "choose In or NotIn for a field"))
	case len(r.Values) != 1:
		errs = append(errs, field.Required(values, "a field is compared with one value"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(at.Child("key"), r.Key, "the only field that can be selected by is metadata.name"))
	}
	for i, value := range r.Values {
		errs = append(errs, nodeName(values.Index(i), value)...)
	}
	return errs
}

func nodeName(at *field.Path, name string) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, message))
	}
	return errs
}
