package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taintRules are the rules for a single taint, wherever it stands.
var taintRules = Table[taints]{
	{
		ID: "taint-key",
		Doc: `The key of a taint is a label name.

An optional DNS subdomain (at most 253 bytes) and a slash, then at most 63 bytes
of letters, digits, "-", "_" and ".". A toleration can only name such a key, so a
taint with another one could never be tolerated by key.`,
		Class:  Mirror,
		Server: "the same, since DeviceTaint exists (1.33)",
		Source: "KEP-5055, DeviceTaint.Key",
		Check:  taintKey,
	},
	{
		ID: "taint-value",
		Doc: `The value of a taint is a label value.

It may be empty; otherwise at most 63 bytes of letters, digits, "-", "_" and ".",
with a letter or digit at both ends.`,
		Class:  Mirror,
		Server: "the same, since DeviceTaint exists (1.33)",
		Source: "KEP-5055, DeviceTaint.Value",
		Check:  taintValue,
	},
	{
		ID: "taint-effect",
		Doc: `The effect of a taint is NoSchedule, NoExecute or None.

NoSchedule keeps new claims off the device, NoExecute evicts the pods that use it
as well, None only informs. Without an effect a taint means nothing.`,
		Class:  Mirror,
		Server: "the same; None since 1.35",
		Source: "KEP-5055, DeviceTaintEffect",
		Check:  taintEffect,
	},
}

var effects = []resourceapi.DeviceTaintEffect{
	resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone,
}

func taintKey(taints taints, _ Conditions) (errs field.ErrorList) {
	for at, taint := range taints {
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, at.Child("key"))...)
	}
	return errs
}

func taintValue(taints taints, _ Conditions) (errs field.ErrorList) {
	for at, taint := range taints {
		errs = append(errs, labelValue(at.Child("value"), taint.Value)...)
	}
	return errs
}

func taintEffect(taints taints, _ Conditions) (errs field.ErrorList) {
	for at, taint := range taints {
		switch {
		case taint.Effect == "":
			errs = append(errs, field.Required(at.Child("effect"), "choose NoSchedule, NoExecute or None"))
		case !slices.Contains(effects, taint.Effect):
			errs = append(errs, field.NotSupported(at.Child("effect"), taint.Effect, effects))
		}
	}
	return errs
}

func labelValue(at *field.Path, value string) (errs field.ErrorList) {
	for _, message := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}
