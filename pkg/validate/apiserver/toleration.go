package apiserver

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// singleTolerationRules are the rules for a single toleration, of a request or of an
// allocated device. API servers look at the latter since 1.37.
var singleTolerationRules = Table[walk.TolerationWalk]{
	{
		ID: "toleration-key",
		Doc: `The key of a toleration is empty or a label name.

An optional DNS subdomain (at most 253 bytes) and a slash, then at most 63 bytes
of letters, digits, "-", "_" and ".". No taint can have another key.`,
		Upstream: "the same, since DeviceToleration exists (1.33)",
		Source:   "KEP-5055, DeviceToleration.Key",
		Check:    tolerationKey,
	},
	{
		ID: "toleration-operator",
		Doc: `The operator of a toleration is Exists or Equal.

The default is Equal.`,
		Upstream: "the same, since DeviceToleration exists (1.33)",
		Source:   "KEP-5055, DeviceTolerationOperator",
		Check:    tolerationOperator,
	},
	{
		ID: "toleration-effect",
		Doc: `The effect of a toleration is empty, NoSchedule, NoExecute or None.

In the API documentation and for the scheduler, an empty effect means all effects. The
eviction controller of Kubernetes 1.37 evicts such a pod anyway: write NoExecute to tolerate
NoExecute taints.`,
		Upstream: "the same; None since 1.35",
		Source:   "KEP-5055, DeviceToleration.Effect",
		Check:    tolerationEffect,
	},
}

// tolerationValueRules is the one rule for a single toleration that no marker in the
// API's types repeats.
var tolerationValueRules = Table[walk.TolerationWalk]{
	{
		ID: "toleration-value",
		Doc: `The value of a toleration is a label value for Equal, and empty for Exists.

Exists matches every value, so a value would suggest a restriction that does not exist.`,
		Upstream: "the same, since DeviceToleration exists (1.33)",
		Source:   "KEP-5055, DeviceToleration.Value",
		Check:    tolerationValue,
	},
}

var operators = []resourceapi.DeviceTolerationOperator{resourceapi.DeviceTolerationOpEqual, resourceapi.DeviceTolerationOpExists}

func tolerationKey(tolerations walk.TolerationWalk, _ Pass) (errs field.ErrorList) {
	for at, toleration := range tolerations {
		if toleration.Key != "" && len(validation.IsQualifiedName(toleration.Key)) > 0 {
			errs = append(errs, metav1validation.ValidateLabelName(toleration.Key, at.Child("key"))...)
		}
	}
	return errs
}

func tolerationOperator(tolerations walk.TolerationWalk, _ Pass) (errs field.ErrorList) {
	for at, toleration := range tolerations {
		switch {
		case toleration.Operator == "":
			errs = append(errs, field.Required(at.Child("operator"), "choose Equal or Exists"))
		case !slices.Contains(operators, toleration.Operator):
			errs = append(errs, field.NotSupported(at.Child("operator"), toleration.Operator, operators))
		}
	}
	return errs
}

func tolerationValue(tolerations walk.TolerationWalk, _ Pass) (errs field.ErrorList) {
	for at, toleration := range tolerations {
		switch {
		case toleration.Operator == resourceapi.DeviceTolerationOpEqual && len(validation.IsValidLabelValue(toleration.Value)) > 0:
			errs = append(errs, labelValue(at.Child("value"), toleration.Value)...)
		case toleration.Operator == resourceapi.DeviceTolerationOpExists && toleration.Value != "":
			errs = append(errs, field.Invalid(at.Child("value"), toleration.Value,
				"must be empty for operator Exists; use operator Equal to match this value only"))
		}
	}
	return errs
}

func tolerationEffect(tolerations walk.TolerationWalk, c Pass) (errs field.ErrorList) {
	for at, toleration := range tolerations {
		if toleration.Effect != "" && !slices.Contains(toleratedEffects(c), toleration.Effect) {
			errs = append(errs, field.NotSupported(at.Child("effect"), toleration.Effect, toleratedEffects(c)))
		}
	}
	return errs
}

// toleratedEffects are the effects that exist in the profile's minor.
func toleratedEffects(c Pass) []resourceapi.DeviceTaintEffect {
	if c.Profile.Since(35) {
		return []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone}
	}
	return []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule}
}
