package validate

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

const rollPage = "docs/maintenance.md, "

var rollFields = field.NewPath("spec")

// rollGaps are the rules for a roll that no API server has.
var rollGaps = Table[*v1alpha1.DeviceRoll]{
	{
		ID: "roll-names",
		Doc: `The names in a roll can be those of drivers, namespaces, labels, conditions and annotations.

No object has any other name, so that the roll never begins, or waits without limit.`,
		Upstream: "checks the lengths only",
		Source:   rollPage + "Settings",
		Check:    rollNames,
	},
	{
		ID: "roll-time-zone",
		Doc: `The time zone of a window of a roll exists.

A roll begins no node while it has a window whose time zone the controller does not know.`,
		Upstream: "checks the length only",
		Source:   rollPage + "Settings",
		Check: func(r *v1alpha1.DeviceRoll, _ Pass) field.ErrorList {
			return zoneErrors(rollFields.Child("drain", "windows"), r.Spec.Drain.Windows)
		},
	},
	{
		ID: "roll-deadline",
		Doc: `The deadline of the drains of a roll is positive.

They would end before they start.`,
		Upstream: "does not check",
		Source:   rollPage + "Settings",
		Check: func(r *v1alpha1.DeviceRoll, _ Pass) field.ErrorList {
			if d := r.Spec.Drain.Deadline; d != nil && d.After != nil && d.After.Duration <= 0 {
				return field.ErrorList{field.Invalid(rollFields.Child("drain", "deadline", "after"), d.After.Duration.String(), "must be positive, such as 2h")}
			}
			return nil
		},
	},
}

func rollNames(r *v1alpha1.DeviceRoll, c Pass) (errs field.ErrorList) {
	s := r.Spec
	qualified := func(at *field.Path, name string) {
		if name != "" {
			errs = append(errs, form.AllOf(at, name, validation.IsQualifiedName(name))...)
		}
	}
	labels := func(at *field.Path, labels map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			qualified(at, key)
			errs = append(errs, form.AllOf(at.Key(key), labels[key], validation.IsValidLabelValue(labels[key]))...)
		}
	}
	if s.Driver != "" {
		errs = append(errs, form.Driver(rollFields.Child("driver"), s.Driver, c.walks)...)
	}
	qualified(rollFields.Child("perLabel"), s.PerLabel)
	if s.DriverPods != nil {
		at := rollFields.Child("driverPods")
		if s.DriverPods.Namespace != "" {
			errs = append(errs, form.AllOf(at.Child("namespace"), s.DriverPods.Namespace, validation.IsDNS1123Label(s.DriverPods.Namespace))...)
		}
		labels(at.Child("labels"), s.DriverPods.Labels)
	}
	if s.Nodes != nil {
		labels(rollFields.Child("nodes", "labels"), s.Nodes.Labels)
	}
	if work := s.NodeWork; work != nil {
		if work.Condition != nil {
			qualified(rollFields.Child("nodeWork", "condition", "type"), work.Condition.Type)
		}
		if work.Annotation != nil {
			qualified(rollFields.Child("nodeWork", "annotation", "key"), work.Annotation.Key)
		}
	}
	return errs
}
