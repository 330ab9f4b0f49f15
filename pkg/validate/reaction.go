package validate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

const reactionPage = "docs/reactions.md, "

var reactionFields = field.NewPath("spec")

// reactionGaps are the rules for a reaction among the devices that exist.
var reactionGaps = Table[*v1alpha1.DeviceReaction]{
	{
		ID: "reaction-names",
		Doc: `The names in a reaction can be those of drivers, pools, taints and conditions.

No taint has any other key or value, and no device another driver or pool: the reaction never
acts.`,
		Upstream: "checks the lengths only",
		Source:   reactionPage + "When",
		Check:    reactionNames,
	},
	{
		ID: "reaction-expression",
		Doc: `The expressions of a reaction compile to a bool, within limits for length and cost.

The environment and the limits are those of the selectors of claims. While an expression does not
compile, the reaction does nothing.`,
		Upstream: "checks the length only",
		Source:   reactionPage + "When; CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check: func(r *v1alpha1.DeviceReaction, c Pass) field.ErrorList {
			var errs field.ErrorList
			if r.Spec.Selector != nil {
				errs = apiserver.SelectorErrors(reactionFields.Child("selector", "selectors"), r.Spec.Selector.Selectors, c.server)
			}
			if condition := r.Spec.When.NodeCondition; condition != nil && condition.Devices != "" {
				at := reactionFields.Child("when", "nodeCondition", "devices")
				for _, err := range apiserver.SelectorErrors(at, []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: condition.Devices}}}, c.server) {
					err.Field = at.String()
					errs = append(errs, err)
				}
			}
			return errs
		},
	},
	{
		ID: "reaction-template",
		Doc: `The template of a proof is a PodTemplateSpec with a container that has the device.

The reaction sets the claim, the ServiceAccount, the node and the restart policy of the pods: a template
that sets them, too, expects something else than it gets.`,
		Upstream: "does not check",
		Source:   reactionPage + "Prove",
		Check:    reactionTemplate,
	},
	{
		ID: "reaction-time-zone",
		Doc: `The time zone of a window of a reaction exists.

Its drains evict no pods while they have a window whose time zone the controller does not know.`,
		Upstream: "checks the length only",
		Source:   reactionPage + "Then",
		Check: func(r *v1alpha1.DeviceReaction, _ Pass) field.ErrorList {
			return zoneErrors(reactionFields.Child("then", "windows"), r.Spec.Then.Windows)
		},
	},
	{
		ID: "reaction-deadline",
		Doc: `The deadline of a reaction is positive.

Its drains would end before they start.`,
		Upstream: "does not check",
		Source:   reactionPage + "Then",
		Check: func(r *v1alpha1.DeviceReaction, _ Pass) field.ErrorList {
			if d := r.Spec.Then.Deadline; d != nil && d.After != nil && d.After.Duration <= 0 {
				return field.ErrorList{field.Invalid(reactionFields.Child("then", "deadline", "after"), d.After.Duration.String(), "must be positive, such as 2h")}
			}
			return nil
		},
	},
}

// reactionTemplate decodes the template of a proof.
func reactionTemplate(r *v1alpha1.DeviceReaction, _ Pass) (errs field.ErrorList) {
	if r.Spec.Prove == nil || len(r.Spec.Prove.Template.Raw) == 0 {
		return nil
	}
	at := reactionFields.Child("prove", "template")
	template, err := v1alpha1.ProofTemplate(r.Spec.Prove)
	if err != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	spec, at := template.Spec, at.Child("spec")
	for name, set := range map[string]bool{
		"resourceClaims": len(spec.ResourceClaims) > 0, "serviceAccountName": spec.ServiceAccountName != "" || spec.DeprecatedServiceAccount != "",
		"nodeName": spec.NodeName != "", "automountServiceAccountToken": spec.AutomountServiceAccountToken != nil && *spec.AutomountServiceAccountToken,
		"restartPolicy": spec.RestartPolicy != "" && spec.RestartPolicy != corev1.RestartPolicyNever,
	} {
		if set {
			errs = append(errs, field.Forbidden(at.Child(name), "is set by the reaction: leave it out"))
		}
	}
	has := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Resources.Claims, func(claim corev1.ResourceClaim) bool { return claim.Name == v1alpha1.ProofClaim })
	}
	if !slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), has) {
		errs = append(errs, field.Required(at.Child("containers"), "one container must have the device: resources.claims: [{name: "+v1alpha1.ProofClaim+"}]"))
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

func reactionNames(r *v1alpha1.DeviceReaction, c Pass) (errs field.ErrorList) {
	when := reactionFields.Child("when")
	if taint, at := r.Spec.When.Taint, when.Child("taint"); taint != nil {
		if taint.Key != "" {
			errs = append(errs, form.AllOf(at.Child("key"), taint.Key, validation.IsQualifiedName(taint.Key))...)
		}
		if taint.Value != nil {
			errs = append(errs, form.AllOf(at.Child("value"), *taint.Value, validation.IsValidLabelValue(*taint.Value))...)
		}
	}
	if condition := r.Spec.When.NodeCondition; condition != nil && condition.Type != "" {
		errs = append(errs, form.AllOf(when.Child("nodeCondition", "type"), condition.Type, validation.IsQualifiedName(condition.Type))...)
	}
	if s := r.Spec.Selector; s != nil {
		at := reactionFields.Child("selector")
		if s.Driver != nil {
			errs = append(errs, form.Driver(at.Child("driver"), *s.Driver, c.walks)...)
		}
		if s.Pool != nil {
			errs = append(errs, form.Pool(at.Child("pool"), *s.Pool)...)
		}
	}
	return errs
}
