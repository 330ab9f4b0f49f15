package apiserver

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

const rollSource = "docs/maintenance.md, "

var rollSpec = field.NewPath("spec")

// rollNameMax is how long the name of a roll can be.
const rollNameMax = 40

// rollMirror are the rules that the schema of the CustomResourceDefinition has too.
var rollMirror = Table[*v1alpha1.DeviceRoll]{
	{
		ID: "roll-name",
		Doc: `The name of a roll has at most 40 bytes.

The names of its drains begin with it.`,
		Source: rollSource + "What it does",
		Check: func(r *v1alpha1.DeviceRoll, _ Pass) field.ErrorList {
			return form.TooLong(field.NewPath("metadata", "name"), len(r.Name), rollNameMax)
		},
	},
	{
		ID: "roll-work",
		Doc: `A roll replaces the pods of a driver, or waits for work on nodes.

driverPods needs the driver, and the namespace and labels of its pods. nodeWork waits for one
condition or one annotation at most, and needs the driver or nodes.`,
		Source: rollSource + "What it does",
		Check:  rollWork,
	},
	{
		ID: "roll-nodes",
		Doc: `A roll selects nodes by their names or by their labels, at most 1000.

Nodes in skip and workDone are at most 1000, too.`,
		Source: rollSource + "What it does",
		Check:  rollNodes,
	},
	{
		ID: "roll-immutable",
		Doc: `The driver, the work and the nodes of a roll cannot be changed.

Its status has the nodes that it found when it began.`,
		Source: rollSource + "What it does",
		Update: rollImmutable,
	},
	{
		ID: "roll-bounds",
		Doc: `The numbers and durations of a roll are within their bounds.

atATime is from 1 to 32, canary from 0 to 1000, minReadySeconds from 0 to 3600, a timeout from 5 seconds to 30 days, and the rate of the
drains from 1 to 6000 evictions per minute.`,
		Source: rollSource + "Settings",
		Check:  rollBounds,
	},
	{
		ID: "roll-choices",
		Doc: `The enumerated settings of a roll have one of their values.

driverPods.replace is Delete or Wait; the settings of the drains have the values of a DeviceDrain.`,
		Source: rollSource + "Settings",
		Check:  rollChoices,
	},
	{
		ID: "roll-windows",
		Doc: `The windows of a roll are those of a DeviceDrain, and its deadline is a duration.

A deadline at a time is that of one drain, and a roll creates many.`,
		Source: rollSource + "Settings",
		Check: func(r *v1alpha1.DeviceRoll, _ Pass) field.ErrorList {
			return settingsWindows(rollSpec.Child("drain"), r.Spec.Drain)
		},
	},
	{
		ID: "roll-proof",
		Doc: `A proof has a namespace, a DeviceClass and an image.

Its command has at most 64 words.`,
		Source: rollSource + "The proof",
		Check:  rollProof,
	},
}

func rollWork(r *v1alpha1.DeviceRoll, _ Pass) (errs field.ErrorList) {
	s := r.Spec
	if (s.DriverPods != nil) == (s.NodeWork != nil) {
		errs = append(errs, field.Invalid(rollSpec, field.OmitValueType{}, "must have exactly one of driverPods and nodeWork"))
	}
	errs = append(errs, form.TooLong(rollSpec.Child("driver"), len(s.Driver), 63)...)
	if pods, at := s.DriverPods, rollSpec.Child("driverPods"); pods != nil {
		if s.Driver == "" {
			errs = append(errs, field.Required(rollSpec.Child("driver"), "driverPods needs driver"))
		}
		errs = append(errs, named(at.Child("namespace"), pods.Namespace, 63)...)
		errs = append(errs, someLabels(at.Child("labels"), pods.Labels)...)
	}
	if work, at := s.NodeWork, rollSpec.Child("nodeWork"); work != nil {
		if s.Driver == "" && s.Nodes == nil {
			errs = append(errs, field.Invalid(rollSpec, field.OmitValueType{}, "must have driver or nodes: a roll of all nodes is refused"))
		}
		if work.Condition != nil && work.Annotation != nil {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must have at most one of condition and annotation"))
		}
		if work.Condition != nil {
			errs = append(errs, named(at.Child("condition", "type"), work.Condition.Type, 316)...)
		}
		if work.Annotation != nil {
			errs = append(errs, named(at.Child("annotation", "key"), work.Annotation.Key, 316)...)
			errs = append(errs, form.TooLong(at.Child("annotation", "value"), len(work.Annotation.Value), 1024)...)
		}
	}
	return errs
}

// someLabels are from 1 to 16 labels.
func someLabels(at *field.Path, labels map[string]string) field.ErrorList {
	if len(labels) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	return form.AtMost(at, len(labels), 16)
}

func rollNodes(r *v1alpha1.DeviceRoll, _ Pass) (errs field.ErrorList) {
	if only, at := r.Spec.Nodes, rollSpec.Child("nodes"); only != nil {
		if (len(only.Names) > 0) == (len(only.Labels) > 0) {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "must have exactly one of names and labels"))
		}
		errs = append(errs, nodeNames(at.Child("names"), only.Names)...)
		errs = append(errs, form.AtMost(at.Child("labels"), len(only.Labels), 16)...)
	}
	errs = append(errs, nodeNames(rollSpec.Child("skip"), r.Spec.Skip)...)
	return append(errs, nodeNames(rollSpec.Child("workDone"), r.Spec.WorkDone)...)
}

// nodeNames are names of nodes, each once.
func nodeNames(at *field.Path, names []string) field.ErrorList {
	if errs := form.AtMost(at, len(names), v1alpha1.RollNodesMax); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range names {
		errs = append(errs, form.TooLong(at.Index(i), len(name), 253)...)
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}

func rollImmutable(old, r *v1alpha1.DeviceRoll, _ Pass) (errs field.ErrorList) {
	for _, part := range [...]struct {
		name    string
		was, is any
	}{
		{"driver", old.Spec.Driver, r.Spec.Driver},
		{"driverPods", old.Spec.DriverPods, r.Spec.DriverPods},
		{"nodeWork", old.Spec.NodeWork, r.Spec.NodeWork},
		{"nodes", old.Spec.Nodes, r.Spec.Nodes},
	} {
		if !equality.Semantic.DeepEqual(part.was, part.is) {
			errs = append(errs, field.Invalid(rollSpec.Child(part.name), field.OmitValueType{}, "cannot be changed: create another roll"))
		}
	}
	return errs
}

func rollBounds(r *v1alpha1.DeviceRoll, _ Pass) field.ErrorList {
	const least, most = 5 * time.Second, 720 * time.Hour
	timeouts, t := rollSpec.Child("timeouts"), r.Spec.Timeouts
	errs := slices.Concat(
		bounds(rollSpec.Child("atATime"), r.Spec.AtATime, v1alpha1.RollAtATimeMax, "must be at least 1"),
		form.TooLong(rollSpec.Child("perLabel"), len(r.Spec.PerLabel), 316),
		settingsBounds(rollSpec.Child("drain"), r.Spec.Drain),
		span(timeouts.Child("drain"), t.Drain, least, most),
		span(timeouts.Child("driver"), t.Driver, least, most),
		span(timeouts.Child("work"), t.Work, least, most),
		span(timeouts.Child("proof"), t.Proof, least, most),
	)
	if n := r.Spec.Canary; n < 0 || n > v1alpha1.RollNodesMax {
		errs = append(errs, field.Invalid(rollSpec.Child("canary"), n, fmt.Sprintf("must be at least 0 and at most %d", v1alpha1.RollNodesMax)))
	}
	if n := r.Spec.MinReadySeconds; n != nil && (*n < 0 || *n > 3600) {
		errs = append(errs, field.Invalid(rollSpec.Child("minReadySeconds"), *n, "must be at least 0 and at most 3600"))
	}
	if r.Spec.Continue < 0 {
		errs = append(errs, field.Invalid(rollSpec.Child("continue"), r.Spec.Continue, "must be at least 0"))
	}
	return errs
}

func rollChoices(r *v1alpha1.DeviceRoll, _ Pass) field.ErrorList {
	errs := settingsChoices(rollSpec.Child("drain"), r.Spec.Drain)
	if pods := r.Spec.DriverPods; pods != nil {
		errs = append(errs, choice(rollSpec.Child("driverPods", "replace"), pods.Replace, v1alpha1.ReplaceDelete, v1alpha1.ReplaceWait)...)
	}
	if work := r.Spec.NodeWork; work != nil && work.Condition != nil {
		errs = append(errs, choice(rollSpec.Child("nodeWork", "condition", "status"), work.Condition.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
	}
	return errs
}

func rollProof(r *v1alpha1.DeviceRoll, _ Pass) (errs field.ErrorList) {
	proof, at := r.Spec.Proof, rollSpec.Child("proof")
	if proof == nil {
		return nil
	}
	errs = slices.Concat(named(at.Child("namespace"), proof.Namespace, 63), named(at.Child("deviceClassName"), proof.DeviceClassName, 253),
		named(at.Child("image"), proof.Image, 512), form.AtMost(at.Child("command"), len(proof.Command), 64))
	for i, word := range proof.Command[:min(len(proof.Command), 64)] {
		errs = append(errs, form.TooLong(at.Child("command").Index(i), len(word), 4096)...)
	}
	return errs
}
