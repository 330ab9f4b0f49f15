package apiserver

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

const reactionSource = "docs/reactions.md, "

var reactionSpec = field.NewPath("spec")

// reactionNameMax is how long the name of a reaction can be.
const reactionNameMax = 40

// reactionMirror are the rules that the schema of the CustomResourceDefinition has too.
var reactionMirror = Table[*v1alpha1.DeviceReaction]{
	{
		ID: "reaction-name",
		Doc: `The name of a reaction has at most 40 bytes.

The names of its drains begin with it.`,
		Source: reactionSource + "What it does",
		Check: func(r *v1alpha1.DeviceReaction, _ Pass) field.ErrorList {
			return form.TooLong(field.NewPath("metadata", "name"), len(r.Name), reactionNameMax)
		},
	},
	{
		ID: "reaction-cause",
		Doc: `A reaction has one cause: a taint, a condition of nodes, the health of devices, or their binding.

The cause lasts for 5 seconds to a day. The key of a taint is not one of dra-steward.io: drains
write these taints themselves, so that a drain would be the cause of the next.`,
		Source: reactionSource + "When",
		Check:  reactionCause,
	},
	{
		ID: "reaction-selector",
		Doc: `The selector of a reaction has a driver, a pool or expressions, and at most 32 expressions.

Each expression is a CEL expression; a selector without cel selects nothing. Leave the selector
out to select all devices.`,
		Source: reactionSource + "When; DeviceSelectorsMaxSize",
		Check:  reactionSelector,
	},
	{
		ID: "reaction-bounds",
		Doc: `The rate and the limits of a reaction are within their bounds.

A limit of the brake is from 1 to 256 devices, or from 1 to 100 percent; the rate of a drain from 1 to
6000 evictions per minute; end.after from 5 seconds to 30 days.`,
		Source: reactionSource + "The brake",
		Check:  reactionBounds,
	},
	{
		ID: "reaction-choices",
		Doc: `The enumerated settings of a reaction have one of their values.

mode is Observe or Act; end.uncordon is OnAcknowledgement or WhenHealthy; the settings of the drain
have the values of a DeviceDrain.`,
		Source: reactionSource + "Then",
		Check:  reactionChoices,
	},
	{
		ID: "reaction-windows",
		Doc: `The windows of a reaction are those of a DeviceDrain, and its deadline is a duration.

A deadline at a time is that of one drain, and a reaction creates many.`,
		Source: reactionSource + "Then",
		Check:  reactionWindows,
	},
	{
		ID: "reaction-driver-pods",
		Doc: `The pods of a driver have a namespace and 1 to 8 labels, and restartDriver has such pods.

Without labels, every pod of the namespace is one of the driver.`,
		Source: reactionSource + "The end",
		Check:  reactionDriverPods,
	},
	{
		ID: "reaction-prove",
		Doc: `A proof names the class of its claim and has a template; it has 1 to 100 runs.

Its timeout is from 10 seconds to a day.`,
		Source: reactionSource + "Prove",
		Check:  reactionProof,
	},
}

func reactionProof(r *v1alpha1.DeviceReaction, _ Pass) (errs field.ErrorList) {
	prove, at := r.Spec.Prove, reactionSpec.Child("prove")
	if prove == nil {
		return nil
	}
	errs = append(errs, named(at.Child("deviceClassName"), prove.DeviceClassName, 253)...)
	errs = append(errs, bounds(at.Child("runs"), prove.Runs, 100, "must be at least 1")...)
	errs = append(errs, span(at.Child("timeout"), prove.Timeout, 10*time.Second, 24*time.Hour)...)
	if len(prove.Template.Raw) == 0 {
		errs = append(errs, field.Required(at.Child("template"), "must be a PodTemplateSpec"))
	}
	return errs
}

func reactionCause(r *v1alpha1.DeviceReaction, _ Pass) (errs field.ErrorList) {
	when, at := r.Spec.When, reactionSpec.Child("when")
	causes := 0
	for _, set := range []bool{when.Taint != nil, when.NodeCondition != nil, when.DeviceHealth != nil, when.BindingConditions != nil} {
		if set {
			causes++
		}
	}
	if causes != 1 {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must have exactly one of taint, nodeCondition, deviceHealth and bindingConditions"))
	}
	if when.DeviceHealth != nil {
		errs = append(errs, choice(at.Child("deviceHealth", "status"), corev1.ResourceHealthStatus(when.DeviceHealth.Status), corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)...)
	}
	errs = append(errs, span(at.Child("for"), when.For, 5*time.Second, 24*time.Hour)...)
	if taint, at := when.Taint, at.Child("taint"); taint != nil {
		errs = append(errs, named(at.Child("key"), taint.Key, 316)...)
		if strings.HasPrefix(taint.Key, v1alpha1.Group+"/") {
			errs = append(errs, field.Invalid(at.Child("key"), taint.Key, "must not be a key of dra-steward.io: drains write these taints themselves"))
		}
		if taint.Value != nil {
			errs = append(errs, form.TooLong(at.Child("value"), len(*taint.Value), 63)...)
		}
		errs = append(errs, choice(at.Child("effect"), resourceapi.DeviceTaintEffect(taint.Effect), resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone)...)
		errs = append(errs, choice(at.Child("from"), taint.From, v1alpha1.TaintFromDriver, v1alpha1.TaintFromRule)...)
	}
	if condition, at := when.NodeCondition, at.Child("nodeCondition"); condition != nil {
		errs = append(errs, named(at.Child("type"), condition.Type, 316)...)
		errs = append(errs, choice(at.Child("status"), metav1.ConditionStatus(condition.Status), metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown)...)
		errs = append(errs, form.TooLong(at.Child("reason"), len(condition.Reason), 1024)...)
		errs = append(errs, form.TooLong(at.Child("devices"), len(condition.Devices), 2048)...)
	}
	if binding, at := when.BindingConditions, at.Child("bindingConditions", "types"); binding != nil {
		errs = append(errs, form.AtMost(at, len(binding.Types), 4)...)
		for i, kind := range binding.Types {
			errs = append(errs, named(at.Index(i), kind, 316)...)
			if slices.Contains(binding.Types[:i], kind) {
				errs = append(errs, field.Duplicate(at.Index(i), kind))
			}
		}
	}
	return errs
}

// named reports a name that is empty or too long.
func named(at *field.Path, value string, most int) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return form.TooLong(at, len(value), most)
}

// span reports a duration that is too short or too long.
func span(at *field.Path, d *metav1.Duration, least, most time.Duration) field.ErrorList {
	if d == nil || d.Duration >= least && d.Duration <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(at, d.Duration.String(), "must be at least "+least.String()+" and at most "+most.String())}
}

func reactionSelector(r *v1alpha1.DeviceReaction, c Pass) (errs field.ErrorList) {
	s := r.Spec.Selector
	if s == nil {
		return nil
	}
	at := reactionSpec.Child("selector")
	if s.Driver == nil && s.Pool == nil && len(s.Selectors) == 0 {
		errs = append(errs, field.Required(at, "must have driver, pool or selectors; leave it out to select all devices"))
	}
	at = at.Child("selectors")
	errs = append(errs, form.AtMost(at, len(s.Selectors), resourceapi.DeviceSelectorsMaxSize)...)
	return append(errs, selectorForm(walk.CheckedSelectors(at, s.Selectors, c.server), c)...)
}

func reactionBounds(r *v1alpha1.DeviceReaction, _ Pass) (errs field.ErrorList) {
	brake, then := reactionSpec.Child("brake"), reactionSpec.Child("then")
	const low = "must be at least 1"
	return slices.Concat(
		bounds(brake.Child("devicesPerPool"), r.Spec.Brake.DevicesPerPool, v1alpha1.ReactionBrakeMax, low),
		bounds(brake.Child("percentOfDriver"), r.Spec.Brake.PercentOfDriver, 100, low),
		bounds(brake.Child("devices"), r.Spec.Brake.Devices, v1alpha1.ReactionBrakeMax, low),
		settingsBounds(then, r.Spec.Then.DrainSettings),
		span(reactionSpec.Child("end", "after"), r.Spec.End.After, 5*time.Second, 720*time.Hour),
	)
}

func reactionChoices(r *v1alpha1.DeviceReaction, _ Pass) field.ErrorList {
	return slices.Concat(
		choice(reactionSpec.Child("mode"), r.Spec.Mode, v1alpha1.ReactionAct, v1alpha1.ReactionObserve),
		choice(reactionSpec.Child("end", "uncordon"), r.Spec.End.Uncordon, v1alpha1.UncordonOnAcknowledgement, v1alpha1.UncordonWhenHealthy),
		settingsChoices(reactionSpec.Child("then"), r.Spec.Then.DrainSettings),
	)
}

// reactionDriverPods are the pods of the driver of a reaction.
func reactionDriverPods(r *v1alpha1.DeviceReaction, _ Pass) (errs field.ErrorList) {
	end, at := r.Spec.End, reactionSpec.Child("end")
	if end.RestartDriver && end.DriverPods == nil {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "restartDriver needs driverPods"))
	}
	if end.DriverPods == nil {
		return errs
	}
	at = at.Child("driverPods")
	errs = append(errs, named(at.Child("namespace"), end.DriverPods.Namespace, 63)...)
	if n := len(end.DriverPods.MatchLabels); n == 0 {
		errs = append(errs, field.Required(at.Child("matchLabels"), "must have at least one label"))
	} else {
		errs = append(errs, form.AtMost(at.Child("matchLabels"), n, 8)...)
	}
	return errs
}

func reactionWindows(r *v1alpha1.DeviceReaction, _ Pass) field.ErrorList {
	return settingsWindows(reactionSpec.Child("then"), r.Spec.Then.DrainSettings)
}
