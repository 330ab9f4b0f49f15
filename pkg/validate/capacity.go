package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValidValues is CapacityRequestPolicyDiscreteMaxOptions of the API server, which the
// API does not export.
const maxValidValues = 10

const capacityServer = "the same, since 1.34, with DRAConsumableCapacity; since 1.37 an unchanged capacity is not looked at"

// capacityRules are the rules for how the capacity of a device may be shared.
var capacityRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "capacity-policy",
		Doc: `A request policy says one thing, of a device that may be allocated several times.

The policy says how much of a capacity a claim may ask for: one of some values, or a
range. Of a device that is allocated as a whole nothing can be asked for.`,
		Class:  Mirror,
		Server: capacityServer,
		Source: "KEP-5075, CapacityRequestPolicy",
		Check:  eachDevice(capacityPolicy),
		Update: eachDeviceUpdate(capacityPolicy),
	},
	{
		ID: "capacity-default",
		Doc: `A request policy has a default, which it allows.

A claim that asks for no amount gets the default.`,
		Class:  Mirror,
		Server: capacityServer + "; the default of a range is named as the fault since 1.37, before the bound",
		Source: "KEP-5075, CapacityRequestPolicy.Default",
		Check:  eachDevice(capacityDefault),
		Update: eachDeviceUpdate(capacityDefault),
	},
	{
		ID: "capacity-values",
		Doc: `The values of a request policy are at most 10, ascending, and none is above the capacity.

A request is rounded up to the next of them.`,
		Class:  Mirror,
		Server: capacityServer,
		Source: "KEP-5075, CapacityRequestPolicyDiscreteMaxOptions",
		Check:  eachDevice(capacityValues),
		Update: eachDeviceUpdate(capacityValues),
	},
	{
		ID: "capacity-range",
		Doc: `The range of a request policy begins at min, and ends at max or with the capacity.

A range in which nothing lies, or which exceeds the capacity, allows what no claim can
get.`,
		Class:  Mirror,
		Server: capacityServer,
		Source: "KEP-5075, CapacityRequestPolicyRange",
		Check:  eachDevice(capacityRange),
		Update: eachDeviceUpdate(capacityRange),
	},
	{
		ID: "capacity-step",
		Doc: `The step of a range is positive, fits into the capacity, and leads to the default and to max.

Requests are rounded up to min and a number of steps. Up to 1.36 an API server divides
by the step unasked: it crashes on a step that is 0, or a multiple of 2^64.`,
		Class:  Mirror,
		Server: capacityServer + "; crashes on step 0 before 1.37",
		Source: "KEP-5075, CapacityRequestPolicyRange.Step",
		Check:  eachDevice(capacityStep),
		Early:  eachDevice(crashingStep),
		Update: eachDeviceUpdate(capacityStep),
	},
}

// sameCapacity tells whether the API server passes over the capacity of a device, since
// it is what is stored.
func (d device) sameCapacity() bool {
	return d.before != nil && d.list.profile.Since(37) && equality.Semantic.DeepEqual(d.before.Capacity, d.Capacity)
}

// A policy is the request policy of a capacity.
type policy struct {
	*resourceapi.CapacityRequestPolicy
	value resource.Quantity
	// shared says that the device may be allocated several times.
	shared bool
}

// policies reports what check finds in the request policies of a device.
func policies(d device, check func(at *field.Path, p policy) field.ErrorList) (errs field.ErrorList) {
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range keysOf(d.Capacity, func(_ resourceapi.QualifiedName, c resourceapi.DeviceCapacity) bool {
		return c.RequestPolicy != nil
	}) {
		capacity := d.Capacity[name]
		at := key(d.at("capacity"), string(name)).Child("requestPolicy")
		errs = append(errs, check(at, policy{capacity.RequestPolicy, capacity.Value, shared})...)
	}
	if len(errs) > 0 && d.sameCapacity() {
		return nil
	}
	return errs
}

// values returns the values of a policy that is judged by them, span its range.
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

func capacityPolicy(d device, _ Conditions) field.ErrorList {
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

func capacityDefault(d device, c Conditions) field.ErrorList {
	return policies(d, func(at *field.Path, p policy) field.ErrorList {
		values, span := p.values(), p.span()
		switch {
		case len(values) == 0 && span == nil:
			return nil
		case p.Default == nil:
			return field.ErrorList{field.Required(at.Child("default"), "is needed beside validValues and validRange")}
		case span != nil:
			return defaultInRange(at.Child("validRange"), *p.Default, span, c)
		}
		for _, value := range judged(values, maxValidValues, c) {
			if compare(value, *p.Default) == 0 {
				return nil
			}
		}
		return field.ErrorList{field.Invalid(at.Child("validValues"), text(*p.Default), "must contain the default")}
	})
}

// defaultInRange reports a default outside of its range. Since 1.37 the API server
// names a default in the range, which there is not, before that the bound.
func defaultInRange(at *field.Path, value resource.Quantity, span *resourceapi.CapacityRequestPolicyRange, c Conditions) (errs field.ErrorList) {
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

func capacityValues(d device, c Conditions) field.ErrorList {
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
		errs = append(errs, atMost(at, len(values), most)...)
		seen := map[string]bool{}
		for i, value := range judged(values, most, c) {
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

func capacityRange(d device, _ Conditions) field.ErrorList {
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
