package validate

import (
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// specImmutable is the rule about the change of a claim or a template.
const (
	specImmutable    = "spec-immutable"
	specImmutableDoc = `The spec of a claim or a template does not change.

Devices may be allocated for it, or claims made from it. Delete the object and create
another, or change labels and annotations only.`
)

// frozen reports the change of a claim's spec, beyond what an API server fills in and
// what it does not know yet.
func frozen(at *field.Path, old, spec *resourceapi.ResourceClaimSpec, c Conditions) field.ErrorList {
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	old, spec = old.DeepCopy(), spec.DeepCopy()
	for _, s := range []*resourceapi.ResourceClaimSpec{old, spec} {
		fillIn(s)
		visitDerived(s, !c.Profile.Since(37))
	}
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "is immutable; delete the object and create another")}
}

// frozenTemplate is frozen for a template, whose metadata for claims do not change
// either.
func frozenTemplate(old, template *resourceapi.ResourceClaimTemplate, c Conditions) field.ErrorList {
	at := field.NewPath("spec")
	if !equality.Semantic.DeepEqual(old.Spec.ObjectMeta, template.Spec.ObjectMeta) {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "is immutable; delete the object and create another")}
	}
	return frozen(at, &old.Spec.Spec, &template.Spec.Spec, c)
}

// fillIn sets the defaults of an API server.
func fillIn(spec *resourceapi.ResourceClaimSpec) {
	fill := func(mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration) {
		if *mode == "" {
			*mode = resourceapi.DeviceAllocationModeExactCount
		}
		if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
		fillInOperators(tolerations)
	}
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		if r := request.Exactly; r != nil {
			fill(&r.AllocationMode, &r.Count, r.Tolerations)
		}
		for j := range request.FirstAvailable {
			r := &request.FirstAvailable[j]
			fill(&r.AllocationMode, &r.Count, r.Tolerations)
		}
	}
}

func fillInOperators(tolerations []resourceapi.DeviceToleration) {
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}

// onceStored makes rules that look at a claim on creation only: its spec cannot change.
// 1.34 looked at it again.
func onceStored[T any](rules Table[T]) Table[T] {
	rules = slices.Clone(rules)
	for i, rule := range rules {
		if rule.Class == Gap {
			continue
		}
		rules[i].Update = func(_, obj T, c Conditions) field.ErrorList {
			if c.Profile.Since(35) {
				return nil
			}
			return rule.Check(obj, c)
		}
	}
	return rules
}

// liftTemplate makes rules for templates of those for claims. An API server looks at all
// of a template again in an update, though its spec cannot change.
func liftTemplate(rules Table[claimSpec]) Table[*resourceapi.ResourceClaimTemplate] {
	at := field.NewPath("spec", "spec")
	lifted := lift(func(template *resourceapi.ResourceClaimTemplate) claimSpec {
		return claimSpec{at: at, ResourceClaimSpec: &template.Spec.Spec}
	}, rules)
	for i, rule := range rules {
		if rule.Class != Gap {
			lifted[i].Update = func(old, template *resourceapi.ResourceClaimTemplate, c Conditions) field.ErrorList {
				return rule.Check(claimSpec{at, &template.Spec.Spec, &old.Spec.Spec}, c)
			}
		}
	}
	return lifted
}

// templateRules are the rules for a template beside its claim's.
var templateRules = Table[*resourceapi.ResourceClaimTemplate]{
	{
		ID: "template-metadata",
		Doc: `The metadata for the claims of a template are labels and annotations.

Everything else is up to who makes the claims.`,
		Class:  Mirror,
		Server: "the same, since 1.26",
		Source: "KEP-3063, ValidateTemplateObjectMeta",
		Check:  templateMetadataAllowed,
	},
	{
		ID:     specImmutable,
		Doc:    specImmutableDoc,
		Class:  Mirror,
		Server: "the same, since 1.31; 1.34 looks into the new spec too",
		Source: "KEP-4381, ValidateResourceClaimTemplateUpdate",
		Update: frozenTemplate,
	},
}

func templateMetadataAllowed(template *resourceapi.ResourceClaimTemplate, _ Conditions) field.ErrorList {
	at := field.NewPath("spec", "metadata")
	meta := template.Spec.ObjectMeta
	errs := apivalidation.ValidateAnnotations(meta.Annotations, at.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(meta.Labels, at.Child("labels"))...)
	meta.Annotations, meta.Labels = nil, nil
	return append(errs, setFields(at, meta)...)
}

// setFields reports the fields of metadata that are set.
func setFields(at *field.Path, meta metav1.ObjectMeta) (errs field.ErrorList) {
	fields := reflect.ValueOf(meta)
	for i := range fields.NumField() {
		if !reflect.DeepEqual(fields.Field(i).Interface(), reflect.Zero(fields.Field(i).Type()).Interface()) {
			name := fields.Type().Field(i).Name
			errs = append(errs, field.Forbidden(at.Child(lowerFirst(name)), "cannot be set for the claims of a template"))
		}
	}
	return errs
}

func lowerFirst(name string) string {
	return strings.ToLower(name[:1]) + name[1:]
}
