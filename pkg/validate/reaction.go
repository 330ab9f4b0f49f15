package validate

import (
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
		Category: Gap,
		Upstream: "checks the lengths only",
		Source:   reactionPage + "When",
		Check:    reactionNames,
	},
	{
		ID: "reaction-expression",
		Doc: `The expressions of a reaction compile to a bool, within limits for length and cost.

The environment and the limits are those of the selectors of claims. While an expression does not
compile, the reaction does nothing.`,
		Category: Gap,
		Upstream: "checks the length only",
		Source:   reactionPage + "When; CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check: func(r *v1alpha1.DeviceReaction, c Pass) field.ErrorList {
			if r.Spec.Selector == nil {
				return nil
			}
			return apiserver.SelectorErrors(reactionFields.Child("selector", "selectors"), r.Spec.Selector.Selectors, c.server)
		},
	},
	{
		ID: "reaction-time-zone",
		Doc: `The time zone of a window of a reaction exists.

Its drains evict no pods while they have a window whose time zone the controller does not know.`,
		Category: Gap,
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
		Category: Gap,
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
