package validate

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

const drainPage = "docs/drain.md, "

var drainFields = field.NewPath("spec")

func drainDeviceNames(d *v1alpha1.DeviceDrain, c Pass) (errs field.ErrorList) {
	at := drainFields.Child("devices")
	known := map[v1alpha1.DeviceName]bool{}
	for i, name := range d.Spec.Devices {
		at := at.Index(i)
		errs = append(errs, form.Driver(at.Child("driver"), name.Driver, c.walks)...)
		errs = append(errs, form.Pool(at.Child("pool"), name.Pool)...)
		errs = append(errs, form.Label(at.Child("device"), name.Device)...)
		if known[name] {
			errs = append(errs, field.Duplicate(at, name.String()))
		}
		known[name] = true
	}
	if s := d.Spec.Selector; s != nil {
		at := drainFields.Child("selector")
		if s.Driver != nil {
			errs = append(errs, form.Driver(at.Child("driver"), *s.Driver, c.walks)...)
		}
		if s.Pool != nil {
			errs = append(errs, form.Pool(at.Child("pool"), *s.Pool)...)
		}
	}
	return errs
}

func drainExpression(d *v1alpha1.DeviceDrain, c Pass) field.ErrorList {
	if d.Spec.Selector == nil {
		return nil
	}
	return apiserver.SelectorErrors(drainFields.Child("selector", "selectors"), d.Spec.Selector.Selectors, c.server)
}

func drainCordon(d *v1alpha1.DeviceDrain, _ Pass) (errs field.ErrorList) {
	cordon, at := d.Spec.Cordon, drainFields.Child("cordon")
	if cordon == nil {
		return nil
	}
	if cordon.Key != "" {
		errs = append(errs, form.AllOf(at.Child("key"), cordon.Key, validation.IsQualifiedName(cordon.Key))...)
	}
	return append(errs, form.AllOf(at.Child("value"), cordon.Value, validation.IsValidLabelValue(cordon.Value))...)
}

func drainDeadline(d *v1alpha1.DeviceDrain, c Pass) field.ErrorList {
	deadline, at := d.Spec.Deadline, drainFields.Child("deadline")
	switch {
	case deadline == nil:
	case (deadline.After == nil) == (deadline.Time == nil):
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must have exactly one of after and time")}
	case deadline.After != nil && deadline.After.Duration <= 0:
		return field.ErrorList{field.Invalid(at.Child("after"), deadline.After.Duration.String(), "must be positive, such as 2h")}
	case deadline.Time != nil && !c.Now.IsZero() && deadline.Time.Time.Before(c.Now):
		return field.ErrorList{field.Invalid(at.Child("time"), deadline.Time.UTC().Format(time.RFC3339), "is in the past")}
	}
	return nil
}

func drainTimeZone(d *v1alpha1.DeviceDrain, _ Pass) field.ErrorList {
	return zoneErrors(drainFields.Child("windows"), d.Spec.Windows)
}

func zoneErrors(at *field.Path, all []v1alpha1.Window) (errs field.ErrorList) {
	for i, w := range all {
		if _, err := windows.Zone(w.TimeZone); err != nil {
			errs = append(errs, field.Invalid(at.Index(i).Child("timeZone"), w.TimeZone, err.Error()))
		}
	}
	return errs
}

// drainGaps are the rules for a drain among the devices that exist.
var drainGaps = Table[*v1alpha1.DeviceDrain]{
	{
		ID: "drain-device-names",
		Doc: `The devices of a drain have valid names of drivers, pools and devices, each once.

No device can ever have any other name.`,
		Upstream: "checks the lengths only",
		Source:   drainPage + "Which devices",
		Check:    drainDeviceNames,
	},
	{
		ID: "drain-expression",
		Doc: `The expressions of a drain compile to a bool, within limits for length and cost.

The environment and the limits are those of the selectors of claims. A drain with an
expression that does not compile drains nothing.`,
		Upstream: "checks the length only",
		Source:   drainPage + "Which devices; CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check:    drainExpression,
	},
	{
		ID: "drain-cordon",
		Doc: `The taint that cordons devices has a label name as key and a label value as value.

The drain creates DeviceTaintRules with this taint. The API server refuses any other form,
so the drain could not cordon its devices.`,
		Upstream: "checks the lengths only",
		Source:   drainPage + "Cordon; KEP-5055, DeviceTaint",
		Check:    drainCordon,
	},
	{
		ID: "drain-deadline",
		Doc: `A deadline has either a time or a duration, and the duration is positive.

With a deadline in the past the drain would end before it starts.`,
		Upstream: "checks that exactly one is set",
		Source:   drainPage + "The deadline",
		Check:    drainDeadline,
	},
	{
		ID: "drain-time-zone",
		Doc: `The time zone of a window exists.

A drain evicts no pods while it has a window whose time zone the controller does not know.`,
		Upstream: "checks the length only",
		Source:   drainPage + "Windows",
		Check:    drainTimeZone,
	},
	{
		ID: DrainDevicesExist,
		Doc: `The devices of a drain exist, and its selector matches devices and fails on none.

A drain of a device that no slice has does no harm, and is usually a mistake. A selector that
matches nothing waits for the first device. It only warns, because drivers can publish other
devices later.`,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "does not check",
		Source:      drainPage + "Which devices",
		Check:       drainDevicesExist,
	},
}

func drainDevicesExist(d *v1alpha1.DeviceDrain, c Pass) (errs field.ErrorList) {
	if c.ClusterView == nil {
		return nil
	}
	for i, name := range d.Spec.Devices {
		if !published(c.ClusterView, name) {
			errs = append(errs, field.NotFound(drainFields.Child("devices").Index(i), name.String()))
		}
	}
	if d.Spec.Selector == nil {
		return errs
	}
	at := drainFields.Child("selector")
	found, err := c.selector().Select(c.context(), d.Spec.Selector, c.ClusterView.Slices(), maxTrialCost)
	switch {
	case err != nil:
		errs = append(errs, notChecked(at))
	case len(found.Problems) > 0 || found.More: // which other rules report, or which cannot be known
	case found.Failures.Devices > 0:
		errs = append(errs, counted(at, found.Failures.Devices, "an expression fails for %s, so nothing is drained; %s", devices(found.Failures.Devices), found.Failures.First))
	case len(found.Devices) == 0:
		errs = append(errs, field.Invalid(at, 0, "no device matches"))
	case len(found.Devices) > v1alpha1.DrainDevicesMax:
		errs = append(errs, counted(at, len(found.Devices), "matches %s: a drain has at most %d", devices(len(found.Devices)), v1alpha1.DrainDevicesMax))
	}
	return errs
}

// published reports whether a slice of the highest generation of a pool has a device.
func published(clusterView ClusterView, name v1alpha1.DeviceName) bool {
	var newest int64
	found := false
	for _, slice := range clusterView.Pool(name.Driver, name.Pool) {
		if slice.Spec.Pool.Generation < newest {
			continue
		}
		if slice.Spec.Pool.Generation > newest {
			newest, found = slice.Spec.Pool.Generation, false
		}
		for i := range slice.Spec.Devices {
			found = found || slice.Spec.Devices[i].Name == name.Device
		}
	}
	return found
}
