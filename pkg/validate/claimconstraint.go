package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// referenceRules are the rules for the constraints and configurations of a claim or a
// template, which refer to its requests.
var referenceRules = Table[claimSpec]{
	{
		ID: "claim-constraints-max",
		Doc: `A claim has at most 32 constraints.

The allocator checks each of them for each choice of devices.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceConstraintsMaxSize",
		Check: func(spec claimSpec, _ Conditions) field.ErrorList {
			return atMost(spec.at.Child("devices", "constraints"), len(spec.Devices.Constraints), resourceapi.DeviceConstraintsMaxSize)
		},
	},
	{
		ID: "constraint-requests",
		Doc: `A constraint names at most 32 requests of its claim, each once.

By request, or by request/alternative. Without names it holds for all requests.`,
		Class:  Mirror,
		Server: "the same, since 1.31; alternatives since 1.33",
		Source: "KEP-4381, DeviceConstraint.Requests",
		Check:  constraintRequests,
	},
	{
		ID: "constraint-attribute",
		Doc: `A constraint compares an attribute, which it names with its domain.

matchAttribute wants the same value on all devices, distinctAttribute a different one
on each. The domain is a DNS subdomain of at most 63 bytes, in lower case since 1.37;
the name after the slash is a C identifier of at most 32 bytes.`,
		Class:  Mirror,
		Server: "the same, since 1.31; distinctAttribute since 1.34 with DRAConsumableCapacity",
		Source: "KEP-4381, KEP-5075, DeviceConstraint.MatchAttribute, DistinctAttribute",
		Check:  constraintAttribute,
	},
	{
		ID: "claim-configs-max",
		Doc: `A claim has at most 32 configurations.

All of them are copied into its allocation.`,
		Class:  Mirror,
		Server: "the same, since 1.31",
		Source: "KEP-4381, DeviceConfigMaxSize",
		Check: func(spec claimSpec, _ Conditions) field.ErrorList {
			return atMost(spec.at.Child("devices", "config"), len(spec.Devices.Config), resourceapi.DeviceConfigMaxSize)
		},
	},
	{
		ID: "config-requests",
		Doc: `A configuration names at most 32 requests of its claim, each once.

By request, or by request/alternative. Without names it is for all requests.`,
		Class:  Mirror,
		Server: "the same, since 1.31; alternatives since 1.33",
		Source: "KEP-4381, DeviceClaimConfiguration.Requests",
		Check:  configRequests,
	},
}

func constraintRequests(spec claimSpec, c Conditions) (errs field.ErrorList) {
	if len(spec.Devices.Constraints) == 0 {
		return nil
	}
	names := spec.referredNames()
	list := spec.at.Child("devices", "constraints")
	for i, constraint := range judged(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize, c) {
		errs = append(errs, names.checkAll(list.Index(i).Child("requests"), constraint.Requests, c)...)
	}
	return errs
}

func configRequests(spec claimSpec, c Conditions) (errs field.ErrorList) {
	if len(spec.Devices.Config) == 0 {
		return nil
	}
	names := spec.referredNames()
	list := spec.at.Child("devices", "config")
	for i, config := range judged(spec.Devices.Config, resourceapi.DeviceConfigMaxSize, c) {
		errs = append(errs, names.checkAll(list.Index(i).Child("requests"), config.Requests, c)...)
	}
	return errs
}

func constraintAttribute(spec claimSpec, c Conditions) (errs field.ErrorList) {
	list := spec.at.Child("devices", "constraints")
	declared := c.Profile.Since(37) && !spec.sameConstraints()
	compared := func(at *field.Path, name resourceapi.FullyQualifiedName) {
		errs = append(errs, referredAttribute(at, name, c)...)
		if declared {
			errs = append(errs, declaredAttribute(at, name)...)
		}
	}
	for i, constraint := range judged(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize, c) {
		at := list.Index(i)
		match, distinct := constraint.MatchAttribute, constraint.DistinctAttribute
		switch {
		case match != nil:
			compared(at.Child("matchAttribute"), *match)
			if distinct != nil && declared {
				errs = append(errs, declaredAttribute(at.Child("distinctAttribute"), *distinct)...)
			}
		case distinct != nil:
			compared(at.Child("distinctAttribute"), *distinct)
		case c.Profile.Enabled(DRAConsumableCapacity):
			errs = append(errs, field.Required(at, "name the attribute to compare: matchAttribute or distinctAttribute"))
		default:
			errs = append(errs, field.Required(at.Child("matchAttribute"), "name the attribute to compare"))
		}
	}
	return errs
}

// sameConstraints tells whether declarative validation passes over the constraints,
// since they are those that are stored.
func (s claimSpec) sameConstraints() bool {
	return s.old != nil && equality.Semantic.DeepEqual(s.old.Devices.Constraints, s.Devices.Constraints)
}
