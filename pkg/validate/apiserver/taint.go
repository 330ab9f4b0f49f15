package apiserver

import (
	"iter"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// taintRuleRules are the rules for a DeviceTaintRule except its taint.
var taintRuleRules = Table[*resourceapi.DeviceTaintRule]{
	{
		ID: "taint-rule-selector",
		Doc: `A device selector has valid names of drivers, pools and devices.

The name of a driver is a DNS subdomain of at most 63 bytes, that of a pool DNS subdomains
separated by slashes, that of a device a DNS label. Any other name selects nothing.`,
		Upstream: "the same, since 1.33",
		Source:   "KEP-5055, DeviceTaintSelector",
		Check:    taintRuleSelector,
	},
}

// taintRuleStatusRules are those for its status.
var taintRuleStatusRules = Table[*resourceapi.DeviceTaintRule]{
	{
		ID: "taint-rule-conditions",
		Doc: `The status of a taint rule has at most 8 conditions, of different types.

Each has a type, a status, a time and a reason, like all conditions in Kubernetes.`,
		Upstream: "the same, since 1.35",
		Source:   "KEP-5055, DeviceTaintRuleStatusMaxConditions",
		Check:    taintRuleConditions,
	},
}

func taintRuleSelector(rule *resourceapi.DeviceTaintRule, c Pass) (errs field.ErrorList) {
	selector, at := rule.Spec.DeviceSelector, field.NewPath("spec", "deviceSelector")
	if selector == nil {
		return nil
	}
	if selector.Driver != nil {
		errs = append(errs, form.Driver(at.Child("driver"), *selector.Driver, c.server)...)
	}
	if selector.Pool != nil {
		errs = append(errs, form.Pool(at.Child("pool"), *selector.Pool)...)
	}
	if selector.Device != nil {
		errs = append(errs, form.Label(at.Child("device"), *selector.Device)...)
	}
	return errs
}

func taintRuleConditions(rule *resourceapi.DeviceTaintRule, c Pass) field.ErrorList {
	if !c.Profile.Since(35) {
		return nil
	}
	list, at := rule.Status.Conditions, field.NewPath("status", "conditions")
	errs := form.AtMost(at, len(list), resourceapi.DeviceTaintRuleStatusMaxConditions)
	return append(errs, conditions(at, list, c)...)
}

func taintRuleStatusPart(rule *resourceapi.DeviceTaintRule) metadata {
	return metadata{ObjectMeta: &rule.ObjectMeta, numbered: true}
}

// taintRules are the rules for a single taint, in slices and in rules.
var taintRules = Table[taintPart]{
	{
		ID: "taint-key",
		Doc: `The key of a taint is a label name.

An optional DNS subdomain (at most 253 bytes) and a slash, then at most 63 bytes
of letters, digits, "-", "_" and ".". Tolerations accept only such keys, so a taint with
any other key can never be tolerated by key.`,
		Upstream: "the same, since DeviceTaint exists (1.33); since 1.35 unchanged taints of a device are not checked",
		Source:   "KEP-5055, DeviceTaint.Key",
		Check:    eachTaint(taintKey),
		Update:   eachTaintUpdate(taintKey),
	},
	{
		ID: "taint-value",
		Doc: `The value of a taint is a label value.

It can be empty; otherwise it has at most 63 bytes of letters, digits, "-", "_" and ".",
with a letter or digit at both ends.`,
		Upstream: "the same, since DeviceTaint exists (1.33); since 1.35 unchanged taints of a device are not checked",
		Source:   "KEP-5055, DeviceTaint.Value",
		Check:    eachTaint(taintValue),
		Update:   eachTaintUpdate(taintValue),
	},
	{
		ID: "taint-effect",
		Doc: `The effect of a taint is NoSchedule, NoExecute or None.

NoSchedule keeps new claims off the device, NoExecute also evicts the pods that use it, and
None only informs. A taint without an effect has no meaning.`,
		Upstream: "the same; None since 1.35; since 1.35 not checked while it does not change",
		Source:   "KEP-5055, DeviceTaintEffect",
		Check:    eachTaint(taintEffect),
		Update:   eachTaintUpdate(taintEffect),
	},
}

var effects = []resourceapi.DeviceTaintEffect{
	resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone,
}

// effects134 are those of 1.34.
var effects134 = effects[:2]

func taintKey(t taint, _ Pass) field.ErrorList {
	if t.onlyDeclared || len(validation.IsQualifiedName(t.Key)) == 0 {
		return nil // without a look for the place: a slice may have 1024 taints
	}
	return metav1validation.ValidateLabelName(t.Key, t.at("key"))
}

func taintValue(t taint, _ Pass) field.ErrorList {
	if t.onlyDeclared || len(validation.IsValidLabelValue(t.Value)) == 0 {
		return nil
	}
	return labelValue(t.at("value"), t.Value)
}

func taintEffect(t taint, c Pass) field.ErrorList {
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

// A taintPart is an object with taints: a slice, or a rule.
type taintPart struct {
	slice *resourceapi.ResourceSlice
	rule  *resourceapi.DeviceTaintRule
}

func slicePart(slice *resourceapi.ResourceSlice) taintPart { return taintPart{slice: slice} }

func rulePart(rule *resourceapi.DeviceTaintRule) taintPart { return taintPart{rule: rule} }

// A taint is a taint that the API server looks at.
type taint struct {
	*resourceapi.DeviceTaint
	// list is the path of the list in which it has an index, or -1 for the taint of a rule.
	list  *field.Path
	index int
	// onlyDeclared is true if only its declarative validation checks the taint, and that
	// only the effect.
	onlyDeclared bool
	// sameEffect is true if the effect is the stored one, which is not checked again.
	sameEffect bool
}

// at is the path of a field of the taint.
func (t taint) at(name string) *field.Path {
	if t.index < 0 {
		return t.list.Child(name)
	}
	return t.list.Index(t.index).Child(name)
}

// walk yields the taints that the API server of the profile looks at; old is zero on
// creation.
func (p taintPart) walk(old taintPart, c Pass) iter.Seq[taint] {
	return func(yield func(taint) bool) {
		if p.rule != nil {
			same := old.rule != nil && c.Profile.Since(35) && old.rule.Spec.Taint.Effect == p.rule.Spec.Taint.Effect
			yield(taint{&p.rule.Spec.Taint, walk.RuleTaintPath, -1, false, same})
			return
		}
		for d := range walk.CheckedDevices(old.slice, p.slice, c.server) {
			if len(d.Taints) == 0 {
				continue
			}
			onlyDeclared := d.PassedOver || c.Profile.Since(35) && len(d.Taints) > resourceapi.DeviceTaintsMaxLength || d.SameTaints()
			if onlyDeclared && !d.Declared() {
				continue
			}
			list := d.At("taints")
			for i := range d.Taints {
				if !yield(taint{&d.Taints[i], list, i, onlyDeclared, false}) {
					return
				}
			}
		}
	}
}

// eachTaint makes a check of all taints of one of a single taint.
func eachTaint(check func(taint, Pass) field.ErrorList) func(taintPart, Pass) field.ErrorList {
	update := eachTaintUpdate(check)
	return func(part taintPart, c Pass) field.ErrorList { return update(taintPart{}, part, c) }
}

func eachTaintUpdate(check func(taint, Pass) field.ErrorList) func(old, part taintPart, c Pass) field.ErrorList {
	return func(old, part taintPart, c Pass) (errs field.ErrorList) {
		for t := range part.walk(old, c) {
			errs = append(errs, check(t, c)...)
		}
		return errs
	}
}
