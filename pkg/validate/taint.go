package validate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// taintRules are the rules for a single taint, wherever it stands.
var taintRules = Table[taintPart]{
	{
		ID: "taint-key",
		Doc: `The key of a taint is a label name.

An optional DNS subdomain (at most 253 bytes) and a slash, then at most 63 bytes
of letters, digits, "-", "_" and ".". A toleration can only name such a key, so a
taint with another one could never be tolerated by key.`,
		Class:  Mirror,
		Server: "the same, since DeviceTaint exists (1.33); since 1.35 unchanged taints of a device are not looked at",
		Source: "KEP-5055, DeviceTaint.Key",
		Check:  eachTaint(taintKey),
		Update: eachTaintUpdate(taintKey),
	},
	{
		ID: "taint-value",
		Doc: `The value of a taint is a label value.

It may be empty; otherwise at most 63 bytes of letters, digits, "-", "_" and ".",
with a letter or digit at both ends.`,
		Class:  Mirror,
		Server: "the same, since DeviceTaint exists (1.33); since 1.35 unchanged taints of a device are not looked at",
		Source: "KEP-5055, DeviceTaint.Value",
		Check:  eachTaint(taintValue),
		Update: eachTaintUpdate(taintValue),
	},
	{
		ID: "taint-effect",
		Doc: `The effect of a taint is NoSchedule, NoExecute or None.

NoSchedule keeps new claims off the device, NoExecute evicts the pods that use it
as well, None only informs. Without an effect a taint means nothing.`,
		Class:  Mirror,
		Server: "the same; None since 1.35; since 1.35 not looked at while it does not change",
		Source: "KEP-5055, DeviceTaintEffect",
		Check:  eachTaint(taintEffect),
		Update: eachTaintUpdate(taintEffect),
	},
}

var effects = []resourceapi.DeviceTaintEffect{
	resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone,
}

// effects134 are those of 1.34.
var effects134 = effects[:2]

func taintKey(t taint, _ Conditions) field.ErrorList {
	if t.onlyDeclared || len(validation.IsQualifiedName(t.Key)) == 0 {
		return nil // without a look for the place: a slice may have 1024 taints
	}
	return metav1validation.ValidateLabelName(t.Key, t.at("key"))
}

func taintValue(t taint, _ Conditions) field.ErrorList {
	if t.onlyDeclared || len(validation.IsValidLabelValue(t.Value)) == 0 {
		return nil
	}
	return labelValue(t.at("value"), t.Value)
}

func taintEffect(t taint, c Conditions) field.ErrorList {
	known := effects
	if !c.Profile.Since(35) {
		known = effects134
	}
	switch {
	case t.sameEffect || slices.Contains(known, t.Effect):
		return nil
	case t.Effect == "":
		return field.ErrorList{field.Required(t.at("effect"), "choose NoSchedule, NoExecute or None")}
	default:
		return field.ErrorList{field.NotSupported(t.at("effect"), t.Effect, known)}
	}
}

func labelValue(at *field.Path, value string) (errs field.ErrorList) {
	for _, message := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}
