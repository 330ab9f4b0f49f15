package apiserver

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

const drainSource = "docs/drain.md, "

var drainSpec = field.NewPath("spec")

// drainMirror are the rules that the schema of the CustomResourceDefinition has too.
var drainMirror = Table[*v1alpha1.DeviceDrain]{
	{
		ID: "drain-name",
		Doc: `The name of a drain has at most 63 bytes.

The name is a label value on the rules that cordon its devices.`,
		Source: drainSource + "Cordon",
		Check: func(d *v1alpha1.DeviceDrain, _ Pass) field.ErrorList {
			return form.TooLong(field.NewPath("metadata", "name"), len(d.Name), validation.LabelValueMaxLength)
		},
	},
	{
		ID: "drain-selection",
		Doc: `A drain has either devices or a selector, and a selector is not empty.

A drain of all devices of a cluster is not supported: name a driver or a pool, or write an
expression.`,
		Source: drainSource + "Which devices",
		Check:  drainSelection,
	},
	{
		ID: "drain-immutable",
		Doc: `The devices of a drain and the taint that cordons them do not change.

The selection is resolved once. Create another drain for other devices.`,
		Source: drainSource + "Which devices",
		Update: drainImmutable,
	},
	{
		ID: "drain-selectors",
		Doc: `The selector of a drain has at most 32 expressions, and each is a CEL expression.

No other form of selector exists yet; a selector without cel selects nothing.`,
		Source: drainSource + "Which devices; DeviceSelectorsMaxSize",
		Check:  drainSelectors,
	},
	{
		ID: "drain-bounds",
		Doc: `The rate and the limits of a drain are at least 1, and the rate at most 6000 per minute.

A limit of 0 would evict no pod: pause the drain instead.`,
		Source: drainSource + "Rate, limits and order",
		Check:  drainBounds,
	},
	{
		ID: "drain-choices",
		Doc: `The enumerated settings of a drain have one of their values.

order lists Priority and OwnerSpread, each at most once; unknownDevices is Include or Exclude;
podsWithoutController is Keep or Evict; via is Eviction or EvictionRequest; atEnd is Hold or Uncordon; deadline.action is
Keep, Delete or Fail.`,
		Source: drainSource + "Rate, limits and order",
		Check:  drainChoices,
	},
	{
		ID: "drain-windows",
		Doc: `A drain has at most 16 windows, each with days in full and two times of day.

days lists Monday to Sunday, each at most once; from and to are HH:MM. The window ends on the
next day unless to is later than from.`,
		Source: drainSource + "Windows",
		Check:  drainWindows,
	},
}

func drainSelection(d *v1alpha1.DeviceDrain, _ Pass) (errs field.ErrorList) {
	selector := d.Spec.Selector
	if (len(d.Spec.Devices) > 0) == (selector != nil) {
		errs = append(errs, field.Invalid(drainSpec, field.OmitValueType{}, "must have exactly one of devices and selector"))
	}
	if selector != nil && selector.Driver == nil && selector.Pool == nil && len(selector.Selectors) == 0 {
		errs = append(errs, field.Required(drainSpec.Child("selector"), "must have driver, pool or selectors: a drain of all devices is refused"))
	}
	return append(errs, form.AtMost(drainSpec.Child("devices"), len(d.Spec.Devices), v1alpha1.DrainDevicesMax)...)
}

func drainImmutable(old, d *v1alpha1.DeviceDrain, _ Pass) (errs field.ErrorList) {
	for _, part := range [...]struct {
		name    string
		was, is any
	}{
		{"devices", old.Spec.Devices, d.Spec.Devices},
		{"selector", old.Spec.Selector, d.Spec.Selector},
		{"cordon", old.Spec.Cordon, d.Spec.Cordon},
	} {
		if !equality.Semantic.DeepEqual(part.was, part.is) {
			errs = append(errs, field.Invalid(drainSpec.Child(part.name), field.OmitValueType{}, "cannot be changed: create another drain"))
		}
	}
	return errs
}

func drainSelectors(d *v1alpha1.DeviceDrain, c Pass) field.ErrorList {
	if d.Spec.Selector == nil {
		return nil
	}
	list, at := d.Spec.Selector.Selectors, drainSpec.Child("selector", "selectors")
	errs := form.AtMost(at, len(list), resourceapi.DeviceSelectorsMaxSize)
	return append(errs, selectorForm(walk.CheckedSelectors(at, list, c.server), c)...)
}

func drainBounds(d *v1alpha1.DeviceDrain, _ Pass) (errs field.ErrorList) {
	for _, bound := range [...]struct {
		name  string
		value *int32
		most  int32
	}{
		{"evictionsPerMinute", d.Spec.EvictionsPerMinute, v1alpha1.DrainRateMax},
		{"maxPerNamespace", d.Spec.MaxPerNamespace, 0},
		{"maxPerNode", d.Spec.MaxPerNode, 0},
	} {
		errs = append(errs, bounds(drainSpec.Child(bound.name), bound.value, bound.most, "must be at least 1; to pause evictions, set paused")...)
	}
	return errs
}

// bounds reports a value below 1, or above most, if that is not 0.
func bounds(at *field.Path, value *int32, most int32, low string) field.ErrorList {
	switch {
	case value == nil:
	case *value < 1:
		return field.ErrorList{field.Invalid(at, *value, low)}
	case most > 0 && *value > most:
		return field.ErrorList{field.Invalid(at, *value, fmt.Sprintf("must be at most %d", most))}
	}
	return nil
}

func drainWindows(d *v1alpha1.DeviceDrain, _ Pass) field.ErrorList {
	return windowErrors(drainSpec.Child("windows"), d.Spec.Windows)
}

func windowErrors(at *field.Path, all []v1alpha1.Window) (errs field.ErrorList) {
	errs = form.AtMost(at, len(all), v1alpha1.WindowsMax)
	for i, w := range all {
		at := at.Index(i)
		for j, day := range w.Days {
			switch {
			case !slices.Contains(windows.Days(), day):
				errs = append(errs, field.NotSupported(at.Child("days").Index(j), day, windows.Days()))
			case slices.Contains(w.Days[:j], day):
				errs = append(errs, field.Duplicate(at.Child("days").Index(j), day))
			}
		}
		errs = append(errs, timeOfDay(at.Child("from"), w.From)...)
		errs = append(errs, timeOfDay(at.Child("to"), w.To)...)
	}
	return errs
}

func timeOfDay(at *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "must be a time of day, such as 22:00")}
	}
	if _, err := windows.Minute(text); err != nil {
		return field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	return nil
}

// choice reports a value that is neither absent nor one of those there are.
func choice[T ~string](at *field.Path, value T, all ...T) field.ErrorList {
	if value == "" || slices.Contains(all, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, all)}
}

func orderErrors(at *field.Path, all []v1alpha1.DrainOrder) (errs field.ErrorList) {
	for i, order := range all {
		if order != v1alpha1.OrderOwnerSpread && order != v1alpha1.OrderPriority {
			errs = append(errs, field.NotSupported(at.Index(i), order, []v1alpha1.DrainOrder{v1alpha1.OrderOwnerSpread, v1alpha1.OrderPriority}))
		}
		if slices.Contains(all[:i], order) {
			errs = append(errs, field.Duplicate(at.Index(i), order))
		}
	}
	return errs
}

func drainChoices(d *v1alpha1.DeviceDrain, _ Pass) (errs field.ErrorList) {
	s := d.Spec
	errs = orderErrors(drainSpec.Child("order"), s.Order)
	errs = append(errs, choice(drainSpec.Child("unknownDevices"), s.UnknownDevices, v1alpha1.UnknownExclude, v1alpha1.UnknownInclude)...)
	errs = append(errs, choice(drainSpec.Child("podsWithoutController"), s.PodsWithoutController, v1alpha1.EvictPods, v1alpha1.KeepPods)...)
	errs = append(errs, choice(drainSpec.Child("via"), s.Via, v1alpha1.ViaEviction, v1alpha1.ViaEvictionRequest)...)
	errs = append(errs, choice(drainSpec.Child("atEnd"), s.AtEnd, v1alpha1.EndHold, v1alpha1.EndUncordon)...)
	if s.Deadline != nil {
		errs = append(errs, choice(drainSpec.Child("deadline", "action"), s.Deadline.Action, v1alpha1.DeadlineDelete, v1alpha1.DeadlineFail, v1alpha1.DeadlineKeep)...)
	}
	return errs
}

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
