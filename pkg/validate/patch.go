package validate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
)

// maxTried bounds the devices that a patch is tried on while its author waits: with
// expressions that takes a tenth of a second.
const maxTried = 10000

// maxTrialCost bounds what the expressions may cost meanwhile: some tenths of a second.
const maxTrialCost = patch.MaxCost

// The rules that may have no time to try an object on the existing devices.
const (
	PatchOutcome      = "patch-outcome"
	DrainDevicesExist = "drain-devices-exist"
)

// patchGaps are the rules for a patch among the devices that exist.
var patchGaps = Table[*v1alpha1.ResourceSlicePatch]{
	{
		ID: "patch-value-form",
		Doc: `A string or version in a patch has at most 64 bytes, and a version is a semantic version.

Every expression fails for a device with an invalid version attribute.`,
		Upstream: "refuses more than 64 characters, which may be more bytes; does not check versions",
		Source:   "DeviceAttributeMaxValueLength, DeviceAttribute.VersionValue",
		Check:    patchValueForm,
	},
	{
		ID: "patch-capacity-policy",
		Doc: `A capacity in a patch, with its request policy, is valid in a slice.

The default and the values of the policy are within the capacity and consistent; see the rules
whose names begin with capacity. No amount is negative. The scheduler cannot calculate with
a negative amount or a step of 0: in a stored patch, such a capacity is ignored.`,
		Upstream: "does not check",
		Source:   "KEP-5075, CapacityRequestPolicy",
		Check:    patchCapacityPolicy,
	},
	{
		ID: "patch-filter-names",
		Doc: `The filter of a patch has valid names of class, driver, pool and device.

A name that no object can have never selects anything.`,
		Upstream: "checks the lengths only",
		Source:   "KEP-5027, DevicePatchFilter",
		Check:    patchFilterNames,
	},
	{
		ID: "patch-expression",
		Doc: `The expressions of a patch compile to a bool, within limits for length and cost.

The environment and the limits are those of the selectors of claims. A patch with an
expression that does not compile applies to no device.`,
		Upstream: "checks the length only",
		Source:   "KEP-5027, Merging; CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check:    patchExpression,
	},
	{
		ID: "patch-cost",
		Doc: `The expressions of a patch cost at most 100000 for the devices of each slice.

The limit is a CEL cost, and is the same in all programs that apply patches. Above it, the
result is unknown, and the patch changes nothing in the slice. The rule tries the first
existing devices that driver and pool select. An expression that has already failed at this
limit does not deny an update.`,
		CrossObject: true,
		Upstream:    "limits the cost of one expression for one device only",
		Source:      "KEP-5027, Merging; CELSelectorExpressionMaxCost",
		Check:       patchCost,
	},
	{
		ID: "patch-class-exists",
		Doc: `The class that the filter of a patch names exists.

Until the class exists, the patch applies to no device. It only warns, because the class can
be created later.`,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "does not check",
		Source:      "KEP-5027, DevicePatchFilter.DeviceClassName",
		Check:       patchClassExists,
	},
	{
		ID: PatchOutcome,
		Doc: `A patch has the intended effect on the existing devices.

The rule warns if no device matches, if an expression fails, if a device has no room for
another attribute or capacity, if another patch wins, if the driver's value has another
type, so that the expressions of claims can fail, or if a capacity and its request policy
contradict each other. It only warns, because drivers can publish other devices later. It
tries at most 10000 devices, and fewer if the expressions are costly. If there is no time
for that, it warns that the outcome is not known.`,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "does not check",
		Source:      "KEP-5027, Merging ResourceSlicePatches and ResourceSlices",
		Check:       patchOutcome,
	},
}

func patchClassExists(p *v1alpha1.ResourceSlicePatch, c Pass) field.ErrorList {
	filter := p.Spec.Devices.Filter
	if c.ClusterView == nil || filter == nil || filter.DeviceClassName == nil || c.ClusterView.Class(*filter.DeviceClassName) != nil {
		return nil
	}
	return field.ErrorList{field.NotFound(patchSpec.Child("filter", "deviceClassName"), *filter.DeviceClassName)}
}

// A trial is the effect of a patch together with the others.
type trial struct {
	patch.Summary
	// tried is the number of devices that the filter could match, more whether there
	// were more of them, late whether there was no time for them.
	tried      int
	more, late bool
}

// try applies a patch to the slices of the cluster, together with the other patches. ok is
// false without a ClusterView, and for a patch that other rules refuse.
func try(p *v1alpha1.ResourceSlicePatch, c Conditions) (t trial, ok bool) {
	if c.ClusterView == nil {
		return t, false
	}
	own := c.compilePatch(p)
	if len(own.Problems) > 0 {
		return t, false
	}
	ctx, all := c.context(), []*patch.Patch{own}
	for other := range c.ClusterView.Patches() {
		if other.Name != p.Name && ctx.Err() == nil {
			all = append(all, c.compilePatch(other))
		}
	}
	spent := uint64(0)
	for slice := range c.ClusterView.Slices() {
		if !own.Selects(slice.Spec.Driver, slice.Spec.Pool.Name) {
			continue
		}
		if spent >= maxTrialCost || t.tried+len(slice.Spec.Devices) > maxTried {
			t.more = true
			break
		}
		e := patch.NewEvaluation(slice)
		e.Limit = maxTrialCost - spent
		result, err := e.Apply(ctx, all)
		if spent += e.Spent(); err != nil {
			t.more, t.late = true, ctx.Err() != nil
			break
		}
		t.tried += len(slice.Spec.Devices)
		if report := result.Reports()[own]; report != nil {
			t.Add(report)
		}
	}
	t.late = t.late || ctx.Err() != nil
	return t, true
}

func (c Conditions) compilePatch(p *v1alpha1.ResourceSlicePatch) *patch.Patch {
	if filter := p.Spec.Devices.Filter; filter != nil && filter.DeviceClassName != nil {
		return c.patchCompiler().Compile(p, c.ClusterView.Class(*filter.DeviceClassName))
	}
	return c.patchCompiler().Compile(p, nil)
}

// patchCost applies the patch alone. How far it goes does not depend on time.
func patchCost(p *v1alpha1.ResourceSlicePatch, c Pass) field.ErrorList {
	if c.ClusterView == nil {
		return nil
	}
	own := c.compilePatch(p)
	if len(own.Problems) > 0 {
		return nil
	}
	spent := uint64(0)
	for slice := range c.ClusterView.Slices() {
		if !own.Selects(slice.Spec.Driver, slice.Spec.Pool.Name) {
			continue
		}
		e := patch.NewEvaluation(slice)
		result, _ := e.Apply(context.Background(), []*patch.Patch{own}) // without a limit there is no error
		if report := result.Reports()[own]; report != nil && report.Failures.Expensive {
			return field.ErrorList{field.Forbidden(patchSpec.Child("filter"), report.Failures.First)}
		}
		if spent += e.Spent(); spent >= maxTrialCost {
			return nil
		}
	}
	return nil
}

func (t trial) first() string {
	if t.more {
		return fmt.Sprintf(" (of the first %d that driver and pool select)", t.tried)
	}
	return ""
}

func patchOutcome(p *v1alpha1.ResourceSlicePatch, c Pass) (errs field.ErrorList) {
	t, ok := try(p, c.Conditions)
	if !ok {
		return nil
	}
	if t.late {
		return field.ErrorList{notChecked(patchSpec)}
	}
	if t.Failures.Expensive {
		return nil // patch-cost reports it
	}
	if t.Failures.Devices > 0 {
		errs = append(errs, counted(patchSpec.Child("filter"), t.Failures.Devices,
			"an expression fails for %s"+t.first()+", to which the patch does not apply; %s", devices(t.Failures.Devices), t.Failures.First))
	}
	if t.Devices == 0 && t.Failures.Devices == 0 && !t.more {
		errs = append(errs, field.Invalid(patchSpec.Child("filter"), 0, "no device matches"+t.first()))
	}
	for _, k := range t.Keys() {
		at := patchSpec.Child("attributes").Key(string(k.Name.Qualified))
		if k.Name.Capacity {
			at = patchSpec.Child("capacity").Key(string(k.Name.Qualified))
		}
		for _, is := range [...]struct {
			n    int
			text string
		}{
			{k.Skipped, "is skipped on %s" + t.first() + ": they have no room for it"},
			{k.Suppressed, "is set by another patch on %s" + t.first() + ", first " + k.By + ": set a higher priority to win"},
			{k.TypeChanged, "has another type than the driver's value on %s" + t.first() + ": expressions about it may fail"},
			{k.PolicyViolated, "is below the amounts of its request policy on %s" + t.first()},
			{k.PolicyDropped, "loses its requestPolicy on %s" + t.first() + ": they are not shared (allowMultipleAllocations)"},
		} {
			if is.n > 0 {
				errs = append(errs, counted(at, is.n, is.text, devices(is.n)))
			}
		}
	}
	return errs
}

// notChecked is what a rule reports that has no time: the outcome is not known.
func notChecked(at *field.Path) *field.Error {
	return field.InternalError(at, errors.New("the outcome is not known: there was no time to try it on the existing devices; use cheaper expressions, or name the driver or the pool"))
}

// counted is an error that carries a number, by which one sees whether it has grown.
func counted(at *field.Path, n int, format string, args ...any) *field.Error {
	return field.Invalid(at, n, fmt.Sprintf(format, args...))
}

func devices(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

// PatchEffect describes in a sentence the effect of a patch on the devices that exist: how
// many match, and in how many an attribute or capacity is added, replaced or removed. It is
// empty without a ClusterView, for a patch that does not compile and for one that matches
// nothing, which rules report.
func PatchEffect(p *v1alpha1.ResourceSlicePatch, c Conditions) string {
	t, ok := try(p, c)
	if !ok || t.Devices == 0 || t.late {
		return ""
	}
	slices := fmt.Sprintf("%d ResourceSlices", t.Slices)
	if t.Slices == 1 {
		slices = "1 ResourceSlice"
	}
	text := fmt.Sprintf("matches %s in %s%s", devices(t.Devices), slices, t.first())
	var changes []string
	for _, k := range t.Keys() {
		for _, is := range [...]struct {
			n    int
			what string
		}{{k.Added, "adds"}, {k.Replaced, "replaces"}, {k.Removed, "removes"}} {
			if is.n > 0 {
				changes = append(changes, fmt.Sprintf("%s %s in %d", is.what, k.Name.Qualified, is.n))
			}
		}
	}
	if len(changes) == 0 {
		return text + ": changes nothing"
	}
	return text + ": " + strings.Join(changes, ", ")
}

var patchSpec = field.NewPath("spec", "devices")

// eachAttribute reports what check finds in the attributes, in the order of their names.
func eachAttribute(p *v1alpha1.ResourceSlicePatch, check func(at *field.Path, a v1alpha1.NullableDeviceAttribute) field.ErrorList) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Attributes)) {
		errs = append(errs, check(patchSpec.Child("attributes").Key(string(name)), p.Spec.Devices.Attributes[name])...)
	}
	return errs
}

func patchValueForm(p *v1alpha1.ResourceSlicePatch, _ Pass) field.ErrorList {
	return eachAttribute(p, func(at *field.Path, a v1alpha1.NullableDeviceAttribute) (errs field.ErrorList) {
		form.Texts(&a.DeviceAttribute, func(text string, version bool, list string, index int) {
			at := at.Child(list)
			if index >= 0 {
				at = at.Index(index)
			}
			errs = append(errs, form.TooLong(at, len(text), resourceapi.DeviceAttributeMaxValueLength)...)
			if version && !form.Semver.MatchString(text) {
				errs = append(errs, field.Invalid(at, text, "must be a semantic version (semver.org 2.0.0), such as 12.4.0"))
			}
		})
		return errs
	})
}

// patchCapacityPolicy lets the rules of slices check a shared device that has nothing but
// the capacities of the patch. What they do not report is whether amounts are negative.
func patchCapacityPolicy(p *v1alpha1.ResourceSlicePatch, c Pass) field.ErrorList {
	shared, capacity := true, make(map[resourceapi.QualifiedName]resourceapi.DeviceCapacity, len(p.Spec.Devices.Capacity))
	for name, value := range p.Spec.Devices.Capacity {
		capacity[resourceapi.QualifiedName(name)] = value
	}
	slice := &resourceapi.ResourceSlice{}
	slice.Spec.Devices = []resourceapi.Device{{Name: "patched", AllowMultipleAllocations: &shared, Capacity: capacity}}
	rules := slices.DeleteFunc(apiserver.ResourceSlice(), func(rule apiserver.Rule[*resourceapi.ResourceSlice]) bool {
		return !strings.HasPrefix(rule.ID, "capacity-")
	})
	errs := rules.Validate(slice, c.APIServer())
	for _, err := range errs {
		err.Field = strings.Replace(err.Field, "spec.devices[patched].", "spec.devices.", 1)
	}
	if len(errs) > 0 {
		return errs
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Capacity)) {
		errs = append(errs, negativeAmounts(patchSpec.Child("capacity").Key(string(name)), p.Spec.Devices.Capacity[name])...)
	}
	return errs
}

func negativeAmounts(at *field.Path, c resourceapi.DeviceCapacity) (errs field.ErrorList) {
	check := func(at *field.Path, q *resource.Quantity) {
		if q != nil && q.Sign() < 0 {
			value := q.DeepCopy()
			errs = append(errs, field.Invalid(at, value.String(), "must not be negative"))
		}
	}
	check(at.Child("value"), &c.Value)
	if c.RequestPolicy == nil {
		return errs
	}
	at = at.Child("requestPolicy")
	check(at.Child("default"), c.RequestPolicy.Default)
	for i := range c.RequestPolicy.ValidValues {
		check(at.Child("validValues").Index(i), &c.RequestPolicy.ValidValues[i])
	}
	if span := c.RequestPolicy.ValidRange; span != nil {
		at = at.Child("validRange")
		check(at.Child("min"), span.Min)
		check(at.Child("max"), span.Max)
		check(at.Child("step"), span.Step)
	}
	return errs
}

func patchFilterNames(p *v1alpha1.ResourceSlicePatch, c Pass) (errs field.ErrorList) {
	filter, at := p.Spec.Devices.Filter, patchSpec.Child("filter")
	if filter == nil {
		return nil
	}
	for _, name := range [...]struct {
		field string
		value *string
		check func(at *field.Path, name string) field.ErrorList
	}{
		{"deviceClassName", filter.DeviceClassName, func(at *field.Path, name string) field.ErrorList {
			return form.AllOf(at, name, validation.IsDNS1123Subdomain(name))
		}},
		{"driver", filter.Driver, func(at *field.Path, name string) field.ErrorList { return form.Driver(at, name, c.walks) }},
		{"pool", filter.Pool, form.Pool},
		{"device", filter.Device, form.Label},
	} {
		if name.value != nil {
			errs = append(errs, name.check(at.Child(name.field), *name.value)...)
		}
	}
	return errs
}

func patchExpression(p *v1alpha1.ResourceSlicePatch, c Pass) field.ErrorList {
	if p.Spec.Devices.Filter == nil {
		return nil
	}
	return apiserver.SelectorErrors(patchSpec.Child("filter", "selectors"), p.Spec.Devices.Filter.Selectors, c.server)
}
