package apiserver

import (
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// specImmutable is the rule about the change of a claim or a template.
const (
	specImmutable    = "spec-immutable"
	specImmutableDoc = `The spec of a claim or a template does not change.

Devices can be allocated for it, or claims created from it. Delete the object and create
another. Labels and annotations can change.`
)

// frozen reports the change of a claim's spec, beyond what an API server fills in and
// what it does not know yet.
func frozen(at *field.Path, old, spec *resourceapi.ResourceClaimSpec, c Pass) field.ErrorList {
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	old, spec = old.DeepCopy(), spec.DeepCopy()
	for _, s := range []*resourceapi.ResourceClaimSpec{old, spec} {
		walk.FillIn(s)
		visitDerived(s, !c.Profile.Since(37))
	}
	if equality.Semantic.DeepEqual(old, spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "is immutable; delete the object and create another")}
}

// frozenTemplate is frozen for a template, whose metadata for claims do not change
// either.
func frozenTemplate(old, template *resourceapi.ResourceClaimTemplate, c Pass) field.ErrorList {
	at := field.NewPath("spec")
	if !equality.Semantic.DeepEqual(old.Spec.ObjectMeta, template.Spec.ObjectMeta) {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "is immutable; delete the object and create another")}
	}
	return frozen(at, &old.Spec.Spec, &template.Spec.Spec, c)
}

// onceStored makes rules that look at a claim on creation only: its spec cannot change.
// 1.34 looked at it again.
func onceStored[T any](rules Table[T]) Table[T] {
	rules = slices.Clone(rules)
	for i, rule := range rules {
		rules[i].Update = func(_, obj T, c Pass) field.ErrorList {
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
func liftTemplate(rules Table[walk.ClaimSpec]) Table[*resourceapi.ResourceClaimTemplate] {
	at := field.NewPath("spec", "spec")
	lifted := lift(func(template *resourceapi.ResourceClaimTemplate) walk.ClaimSpec {
		return walk.ClaimSpec{At: at, ResourceClaimSpec: &template.Spec.Spec}
	}, rules)
	for i, rule := range rules {
		lifted[i].Update = func(old, template *resourceapi.ResourceClaimTemplate, c Pass) field.ErrorList {
			return rule.Check(walk.ClaimSpec{At: at, ResourceClaimSpec: &template.Spec.Spec, Old: &old.Spec.Spec}, c)
		}
	}
	return lifted
}

// templateRules are the rules for a template in addition to those of its claim.
var templateRules = Table[*resourceapi.ResourceClaimTemplate]{
	{
		ID: "template-metadata",
		Doc: `The metadata for the claims of a template are labels and annotations.

The controller that creates the claims sets everything else.`,
		Upstream: "the same, since 1.26",
		Source:   "KEP-3063, ValidateTemplateObjectMeta",
		Check:    templateMetadataAllowed,
	},
	{
		ID:       specImmutable,
		Doc:      specImmutableDoc,
		Upstream: "the same, since 1.31; 1.34 checks the new spec too",
		Source:   "KEP-4381, ValidateResourceClaimTemplateUpdate",
		Update:   frozenTemplate,
	},
}

func templateMetadataAllowed(template *resourceapi.ResourceClaimTemplate, _ Pass) field.ErrorList {
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

// requestRules are the rules for the requests of a claim or a template.
var requestRules = Table[walk.ClaimSpec]{
	{
		ID: "request-name",
		Doc: `The name of a request, and of an alternative, is a DNS label.

At most 63 bytes of lower case letters, digits and "-". Pods, constraints and
configurations refer to requests by this name.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceRequest.Name",
		Check:    requestName,
	},
	{
		ID: "request-name-unique",
		Doc: `The requests of a claim have unique names, and so do the alternatives of a request.

Otherwise a reference to the second one would be impossible.`,
		Upstream: "the same, since 1.31; 1.34 reports it at the field name",
		Source:   "KEP-4381, DeviceRequest.Name, +listMapKey=name",
		Check:    requestNameUnique,
	},
	{
		ID: "request-form",
		Doc: `A request is either exact (exactly) or a list of alternatives (firstAvailable).

With neither it requests nothing; with both it is ambiguous.`,
		Upstream: "the same, since 1.33; 1.34 looks into both forms nevertheless",
		Source:   "KEP-4816, DeviceRequest, +oneOf=deviceRequestType",
		Check:    requestForm,
	},
	{
		ID: "request-class",
		Doc: `A request, and each alternative, names a device class.

The name is a DNS subdomain. The scheduler checks at allocation that the class exists.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, ExactDeviceRequest.DeviceClassName",
		Check:    requestClass,
	},
	{
		ID: "request-mode",
		Doc: `The allocationMode of a request is ExactCount or All.

The default is ExactCount.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceAllocationMode",
		Check:    requestMode,
	},
	{
		ID: "request-count",
		Doc: `The count of a request is greater than zero, and absent with allocationMode All.

With ExactCount it is the number of devices; the default is 1.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, ExactDeviceRequest.Count",
		Check:    requestCount,
	},
}

func requestName(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, request := range spec.CheckedRequests(c.server) {
		errs = append(errs, dnsLabel(at, "name", request.Name)...)
		for at, alternative := range spec.CheckedAlternatives(at, request, walk.Handwritten, c.server) {
			errs = append(errs, dnsLabel(at, "name", alternative.Name)...)
		}
	}
	return errs
}

func requestNameUnique(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	requests := map[string]bool{}
	for at, request := range spec.CheckedRequests(c.server) {
		if requests[request.Name] {
			errs = append(errs, field.Duplicate(duplicate(at, "name", c), request.Name))
		}
		requests[request.Name] = true
		alternatives := map[string]bool{}
		for at, alternative := range spec.CheckedAlternatives(at, request, walk.Declarative, c.server) {
			if alternatives[alternative.Name] {
				errs = append(errs, field.Duplicate(duplicate(at, "name", c), alternative.Name))
			}
			alternatives[alternative.Name] = true
		}
	}
	return errs
}

func requestForm(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, request := range spec.CheckedRequests(c.server) {
		switch {
		case walk.TwoForms(request):
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "has exactly and firstAvailable; choose one of them"))
		case request.Exactly == nil && len(request.FirstAvailable) == 0:
			errs = append(errs, field.Required(at, "write exactly for one kind of device, firstAvailable for alternatives"))
		}
	}
	return errs
}

func requestClass(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, request := range spec.CheckedRequests(c.server) {
		if request.Exactly != nil && spec.Reads(request, walk.ExactForm, walk.Handwritten, c.server) {
			errs = append(errs, className(at, request.Exactly.DeviceClassName, "exactly", "deviceClassName")...)
		}
		for at, alternative := range spec.CheckedAlternatives(at, request, walk.Declarative, c.server) {
			stored := spec.StoredAlternative(request, alternative.Name)
			if walk.OnlyDeclared(request, c.server) && stored != nil && stored.DeviceClassName == alternative.DeviceClassName {
				continue
			}
			errs = append(errs, className(at, alternative.DeviceClassName, "deviceClassName")...)
		}
	}
	return errs
}

// className reports the name of a class in a field below at.
func className(at *field.Path, name, child string, more ...string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at.Child(child, more...), "name the device class")}
	}
	if messages := validation.IsDNS1123Subdomain(name); len(messages) > 0 {
		return form.AllOf(at.Child(child, more...), name, messages)
	}
	return nil
}

func dnsLabel(at *field.Path, child, name string) field.ErrorList {
	if messages := validation.IsDNS1123Label(name); len(messages) > 0 {
		return form.AllOf(at.Child(child), name, messages)
	}
	return nil
}

var modes = []resourceapi.DeviceAllocationMode{resourceapi.DeviceAllocationModeAll, resourceapi.DeviceAllocationModeExactCount}

func requestMode(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, deviceRequest := range spec.CheckedDeviceRequests(walk.Declarative, c.server) {
		if deviceRequest.Mode != "" && deviceRequest.Mode != modes[0] && deviceRequest.Mode != modes[1] {
			errs = append(errs, field.NotSupported(at.Child("allocationMode"), deviceRequest.Mode, modes))
		}
	}
	return errs
}

func requestCount(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, deviceRequest := range spec.CheckedDeviceRequests(walk.Handwritten, c.server) {
		switch {
		case deviceRequest.Mode == resourceapi.DeviceAllocationModeAll && deviceRequest.Count != 0:
			errs = append(errs, field.Invalid(at.Child("count"), deviceRequest.Count, "must be absent: allocationMode All takes every device"))
		case (deviceRequest.Mode == "" || deviceRequest.Mode == resourceapi.DeviceAllocationModeExactCount) && deviceRequest.Count < 0:
			errs = append(errs, field.Invalid(at.Child("count"), deviceRequest.Count, "must be greater than zero"))
		}
	}
	return errs
}

// requestRulesMore is one.
var requestSelectorRules = Table[walk.ClaimSpec]{
	{
		ID: "request-selectors-max",
		Doc: `A request, and each alternative of a request, has at most 32 selectors.

The scheduler evaluates each of them for every device that the class selects.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceSelectorsMaxSize",
		Check:    requestSelectorsMax,
	},
}

func requestSelectorsMax(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, deviceRequest := range spec.CheckedDeviceRequests(walk.Declarative, c.server) {
		errs = append(errs, form.AtMostIn(at, "selectors", len(deviceRequest.Selectors), resourceapi.DeviceSelectorsMaxSize)...)
	}
	return errs
}
