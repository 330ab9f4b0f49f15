package apiserver

import (
	"math"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// maxValidValues is CapacityRequestPolicyDiscreteMaxOptions of the API server, which the
// API does not export.
const maxValidValues = 10

const capacityServer = "the same, since 1.34, with DRAConsumableCapacity; since 1.37 an unchanged capacity is not checked"

// capacityRules are the rules for how the capacity of a device may be shared.
var capacityRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "capacity-policy",
		Doc: `A request policy has either values or a range, on a device with multiple allocations.

The policy defines how much of a capacity a claim can request: one of some values, or an
amount in a range. A device that is allocated as a whole has nothing to request a part of.`,
		Upstream: capacityServer,
		Source:   "KEP-5075, CapacityRequestPolicy",
		Check:    eachDevice(capacityPolicy),
		Update:   eachDeviceUpdate(capacityPolicy),
	},
	{
		ID: "capacity-default",
		Doc: `A request policy has a default that it allows.

A claim that requests no amount gets the default.`,
		Upstream: capacityServer + "; since 1.37 the error is at the default of a range, before at the bound",
		Source:   "KEP-5075, CapacityRequestPolicy.Default",
		Check:    eachDevice(capacityDefault),
		Update:   eachDeviceUpdate(capacityDefault),
	},
	{
		ID: "capacity-values",
		Doc: `The values of a request policy are at most 10, ascending, and none is above the capacity.

A requested amount is rounded up to the next value.`,
		Upstream: capacityServer,
		Source:   "KEP-5075, CapacityRequestPolicyDiscreteMaxOptions",
		Check:    eachDevice(capacityValues),
		Update:   eachDeviceUpdate(capacityValues),
	},
	{
		ID: "capacity-range",
		Doc: `The range of a request policy starts at min and ends at max, within the capacity.

An empty range, or one that exceeds the capacity, allows amounts that no claim can get.`,
		Upstream: capacityServer,
		Source:   "KEP-5075, CapacityRequestPolicyRange",
		Check:    eachDevice(capacityRange),
		Update:   eachDeviceUpdate(capacityRange),
	},
	{
		ID: "capacity-step",
		Doc: `The step of a range is positive, within the capacity, and reaches the default and max.

Requested amounts are rounded up to min plus a number of steps. API servers up to 1.36
divide by the step without a check: they crash on a step of 0 or a multiple of 2^64.`,
		Upstream:     capacityServer + "; crashes on step 0 before 1.37",
		Source:       "KEP-5075, CapacityRequestPolicyRange.Step",
		Check:        eachDevice(capacityStep),
		preAdmission: eachDevice(crashingStep),
		Update:       eachDeviceUpdate(capacityStep),
	},
}

// A policy is the request policy of a capacity.
type policy struct {
	*resourceapi.CapacityRequestPolicy
	value resource.Quantity
	// shared is true if the device may be allocated several times.
	shared bool
}

// policies reports what check finds in the request policies of a device.
func policies(d walk.Device, check func(at *field.Path, p policy) field.ErrorList) (errs field.ErrorList) {
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range form.KeysOf(d.Capacity, func(_ resourceapi.QualifiedName, c resourceapi.DeviceCapacity) bool {
		return c.RequestPolicy != nil
	}) {
		capacity := d.Capacity[name]
		at := form.Key(d.At("capacity"), string(name)).Child("requestPolicy")
		errs = append(errs, check(at, policy{capacity.RequestPolicy, capacity.Value, shared})...)
	}
	if len(errs) > 0 && d.SameCapacity() {
		return nil
	}
	return errs
}

// values returns the values of a policy that is checked by them, span its range.
func (p policy) values() []resource.Quantity {
	if !p.shared || p.ValidRange != nil {
		return nil
	}
	return p.ValidValues
}

func (p policy) span() *resourceapi.CapacityRequestPolicyRange {
	if !p.shared || len(p.ValidValues) > 0 {
		return nil
	}
	return p.ValidRange
}

func capacityPolicy(d walk.Device, _ Pass) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		switch {
		case !p.shared:
			return field.ErrorList{field.Forbidden(at, "set allowMultipleAllocations of the device, or leave the policy out")}
		case len(p.ValidValues) > 0 && p.ValidRange != nil:
			return field.ErrorList{field.Forbidden(at, "has validValues and validRange; choose one")}
		}
		return nil
	})
}

func capacityDefault(d walk.Device, c Pass) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		values, span := p.values(), p.span()
		switch {
		case len(values) == 0 && span == nil:
			return nil
		case p.Default == nil:
			return field.ErrorList{field.Required(at.Child("default"), "is required with validValues and validRange")}
		case span != nil:
			return defaultInRange(at.Child("validRange"), *p.Default, span, c)
		}
		for _, value := range walk.Checked(values, maxValidValues, c.server) {
			if compare(value, *p.Default) == 0 {
				return nil
			}
		}
		return field.ErrorList{field.Invalid(at.Child("validValues"), text(*p.Default), "must contain the default")}
	})
}

// defaultInRange reports a default outside of its range. Since 1.37 the API server
// names a default in the range, which there is not, before that the bound.
func defaultInRange(at *field.Path, value resource.Quantity, span *resourceapi.CapacityRequestPolicyRange, c Pass) (errs field.ErrorList) {
	if span.Min == nil {
		return nil
	}
	outside := func(bound, message string) {
		if c.Profile.Since(37) {
			bound = "default"
		}
		errs = append(errs, field.Invalid(at.Child(bound), text(value), message))
	}
	if compare(value, *span.Min) < 0 {
		outside("min", "the default is less than min: "+text(*span.Min))
	}
	if span.Max != nil && compare(value, *span.Max) > 0 {
		outside("max", "the default is more than max: "+text(*span.Max))
	}
	return errs
}

func capacityValues(d walk.Device, c Pass) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) (errs field.ErrorList) {
		if p.Default == nil {
			return nil
		}
		values, at := p.values(), at.Child("validValues")
		for i := 1; i < len(values); i++ {
			if compare(values[i-1], values[i]) > 0 {
				errs = append(errs, field.Invalid(at.Index(i), text(values[i]), "must not be less than the value before"))
			}
		}
		const most = maxValidValues
		errs = append(errs, form.AtMost(at, len(values), most)...)
		seen := map[string]bool{}
		for i, value := range walk.Checked(values, most, c.server) {
			if compare(value, p.value) > 0 {
				errs = append(errs, field.Invalid(at.Index(i), text(value), "is more than the capacity: "+text(p.value)))
			}
			id := identity64(value, c)
			if seen[id] {
				errs = append(errs, field.Duplicate(at.Index(i), text(value)))
			}
			seen[id] = true
		}
		return errs
	})
}

func capacityRange(d walk.Device, _ Pass) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) (errs field.ErrorList) {
		span, at := p.span(), at.Child("validRange")
		switch {
		case span == nil || p.Default == nil:
			return nil
		case span.Min == nil:
			return field.ErrorList{field.Required(at.Child("min"), "the range needs a beginning")}
		case compare(*span.Min, p.value) > 0:
			errs = append(errs, field.Invalid(at.Child("min"), text(*span.Min), "is more than the capacity: "+text(p.value)))
		}
		if span.Max == nil {
			return errs
		}
		if compare(*span.Min, *span.Max) > 0 {
			errs = append(errs, field.Invalid(at.Child("max"), text(*span.Max), "is less than min: "+text(*span.Min)))
		}
		if compare(*span.Max, p.value) > 0 {
			errs = append(errs, field.Invalid(at.Child("max"), text(*span.Max), "is more than the capacity: "+text(p.value)))
		}
		return errs
	})
}

func capacityStep(d walk.Device, c Pass) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		span := p.span()
		if span == nil || p.Default == nil || span.Min == nil {
			return nil
		}
		r := steps{at.Child("validRange"), p.value, []namedQuantity{
			{"default", p.Default}, {"min", span.Min}, {"max", span.Max}, {"step", span.Step},
		}, c.Profile.Enabled(gateFractionalCapacityRange)}
		if !c.Profile.Since(37) {
			return r.before137()
		}
		return r.since137()
	})
}

// steps are the numbers of a range with a step.
type steps struct {
	at    *field.Path
	value resource.Quantity
	// numbers are the default, min, max and the step; the last two may be nil.
	numbers []namedQuantity
	// fractions is true if the API server calculates with thousandths where necessary.
	fractions bool
}

type namedQuantity struct {
	name string
	*resource.Quantity
}

func (s steps) start() resource.Quantity { return *s.numbers[1].Quantity }

func (s steps) end() *resource.Quantity { return s.numbers[2].Quantity }

func (s steps) step() *resource.Quantity { return s.numbers[3].Quantity }

// since137 is what the API server checks since 1.37: it calculates only with numbers that 64
// bits can hold.
func (s steps) since137() field.ErrorList {
	thousandths := s.fractions && s.any(func(q resource.Quantity) bool { return !q.RoundUp(0) })
	if thousandths {
		if errs := s.unsuitable(unlessThousandths); len(errs) > 0 {
			return errs
		}
	}
	step := s.step()
	if step == nil {
		return nil
	}
	if step.Sign() <= 0 {
		return field.ErrorList{field.Invalid(s.at.Child("step"), text(*step), "must be greater than zero")}
	}
	errs := s.tooLarge()
	if !thousandths {
		if unsuitable := s.unsuitable(unless64Bits); len(unsuitable) > 0 {
			return append(errs, unsuitable...)
		}
	}
	return append(errs, s.missed(func(q resource.Quantity) int64 {
		if thousandths {
			return q.MilliValue()
		}
		return q.Value()
	})...)
}

// before137 is what it checks before 1.37, as if it did not crash.
func (s steps) before137() field.ErrorList {
	if s.step() == nil {
		return nil
	}
	return append(s.tooLarge(), s.missed(func(q resource.Quantity) int64 { return q.Value() })...)
}

func (s steps) any(is func(resource.Quantity) bool) bool {
	return slices.ContainsFunc(s.numbers, func(number namedQuantity) bool { return number.Quantity != nil && is(number.DeepCopy()) })
}

// unsuitable reports the numbers for which why returns a reason.
func (s steps) unsuitable(why func(resource.Quantity) string) (errs field.ErrorList) {
	for _, number := range s.numbers {
		if number.Quantity == nil {
			continue
		}
		if message := why(number.DeepCopy()); message != "" {
			errs = append(errs, field.Invalid(s.at.Child(number.name), text(*number.Quantity), message))
		}
	}
	return errs
}

func unlessThousandths(q resource.Quantity) string {
	if compare(q, *resource.NewMilliQuantity(q.MilliValue(), q.Format)) == 0 {
		return ""
	}
	return "has more than thousandths, or is too large to be counted in them"
}

func unless64Bits(q resource.Quantity) string {
	switch {
	case q.Sign() < 0:
		return "must not be negative"
	case q.CmpInt64(math.MaxInt64) > 0:
		return "must not be larger than 9223372036854775807"
	default:
		return ""
	}
}

// tooLarge reports a first step that leads beyond the capacity.
func (s steps) tooLarge() field.ErrorList {
	sum := s.start().DeepCopy()
	sum.Add(*s.step())
	if compare(sum, s.value) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(s.at.Child("step"), text(*s.step()), "one step leads to "+text(sum)+", more than the capacity: "+text(s.value))}
}

// missed reports numbers that no step leads to.
func (s steps) missed(number func(resource.Quantity) int64) (errs field.ErrorList) {
	step, start := number(*s.step()), number(s.start())
	if step == 0 {
		return field.ErrorList{field.Invalid(s.at.Child("step"), text(*s.step()), "must be greater than zero, and fit into 64 bits; API servers crash on it")}
	}
	for _, end := range []*resource.Quantity{s.numbers[0].Quantity, s.end()} {
		if end != nil && (number(*end)-start)%step != 0 {
			errs = append(errs, field.Invalid(s.at.Child("step"), text(*s.step()), "does not lead from "+text(s.start())+" to "+text(*end)))
		}
	}
	return errs
}

// compare and text take copies: the methods of a Quantity change it.
func compare(a, b resource.Quantity) int { return a.Cmp(b) }

func text(q resource.Quantity) string { return q.String() }

// identity64 is equal for quantities that the API server takes for equal.
func identity64(q resource.Quantity, c Pass) string {
	if c.Profile.Enabled(gateFractionalCapacityRange) {
		return q.AsDec().String()
	}
	return strconv.FormatInt(q.Value(), 10)
}

// crashingStep is what an API server before 1.37 divides by.
func crashingStep(d walk.Device, c Pass) field.ErrorList {
	if !c.Profile.Enabled(gateConsumableCapacity) {
		return nil // the API server drops the policy before it looks
	}
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		span := p.span()
		if span == nil || p.Default == nil || span.Min == nil || span.Step == nil || span.Step.Value() != 0 {
			return nil
		}
		return field.ErrorList{field.Invalid(at.Child("validRange", "step"), text(span.Step.DeepCopy()),
			"must be greater than zero, and fit into 64 bits; API servers crash on it")}
	})
}
