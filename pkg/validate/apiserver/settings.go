package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// settingsBounds are the bounds of the drains of a reaction or a roll.
func settingsBounds(at *field.Path, s v1alpha1.DrainSettings) field.ErrorList {
	const low = "must be at least 1"
	return slices.Concat(
		bounds(at.Child("evictionsPerMinute"), s.EvictionsPerMinute, v1alpha1.DrainRateMax, low),
		bounds(at.Child("maxPerNamespace"), s.MaxPerNamespace, 0, low),
	)
}

// settingsChoices are the enumerated settings of the drains of a reaction or a roll.
func settingsChoices(at *field.Path, s v1alpha1.DrainSettings) field.ErrorList {
	errs := slices.Concat(
		orderErrors(at.Child("order"), s.Order),
		choice(at.Child("podsWithoutController"), s.PodsWithoutController, v1alpha1.EvictPods, v1alpha1.KeepPods),
		choice(at.Child("via"), s.Via, v1alpha1.ViaEviction, v1alpha1.ViaEvictionRequest),
	)
	if s.Deadline != nil {
		errs = append(errs, choice(at.Child("deadline", "action"), s.Deadline.Action, v1alpha1.DeadlineDelete, v1alpha1.DeadlineFail, v1alpha1.DeadlineKeep)...)
	}
	return errs
}

// settingsWindows are the windows and the deadline of the drains of a reaction or a roll.
func settingsWindows(at *field.Path, s v1alpha1.DrainSettings) field.ErrorList {
	errs := windowErrors(at.Child("windows"), s.Windows)
	if d := s.Deadline; d != nil && (d.Time != nil || d.After == nil) {
		errs = append(errs, field.Invalid(at.Child("deadline"), field.OmitValueType{}, "must have after: a time is that of one drain"))
	}
	return errs
}
