package apiserver

import (
	"iter"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// referenceRules are the rules for the constraints and configurations of a claim or a
// template, which refer to its requests.
var referenceRules = Table[walk.ClaimSpec]{
	{
		ID: "claim-constraints-max",
		Doc: `A claim has at most 32 constraints.

The allocator checks each of them for each combination of devices.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceConstraintsMaxSize",
		Check: func(spec walk.ClaimSpec, _ Pass) field.ErrorList {
			return form.AtMost(spec.At.Child("devices", "constraints"), len(spec.Devices.Constraints), resourceapi.DeviceConstraintsMaxSize)
		},
	},
	{
		ID: "constraint-requests",
		Doc: `A constraint names at most 32 requests of its claim, each once.

A name has the form request or request/alternative. Without names it applies to all
requests.`,
		Upstream: "the same, since 1.31; alternatives since 1.33",
		Source:   "KEP-4381, DeviceConstraint.Requests",
		Check:    constraintRequests,
	},
	{
		ID: "constraint-attribute",
		Doc: `A constraint compares an attribute that it names with its domain.

matchAttribute requires the same value on all devices, distinctAttribute a different value
on each. The domain is a DNS subdomain of at most 63 bytes, in lower case since 1.37;
the name after the slash is a C identifier of at most 32 bytes.`,
		Upstream: "the same, since 1.31; distinctAttribute since 1.34 with DRAConsumableCapacity",
		Source:   "KEP-4381, KEP-5075, DeviceConstraint.MatchAttribute, DistinctAttribute",
		Check:    constraintAttribute,
	},
	{
		ID: "claim-configs-max",
		Doc: `A claim has at most 32 configurations.

The scheduler copies all of them into its allocation.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceConfigMaxSize",
		Check: func(spec walk.ClaimSpec, _ Pass) field.ErrorList {
			return form.AtMost(spec.At.Child("devices", "config"), len(spec.Devices.Config), resourceapi.DeviceConfigMaxSize)
		},
	},
	{
		ID: "config-requests",
		Doc: `A configuration names at most 32 requests of its claim, each once.

A name has the form request or request/alternative. Without names it applies to all
requests.`,
		Upstream: "the same, since 1.31; alternatives since 1.33",
		Source:   "KEP-4381, DeviceClaimConfiguration.Requests",
		Check:    configRequests,
	},
}

func constraintRequests(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	if len(spec.Devices.Constraints) == 0 {
		return nil
	}
	names := namesIn(spec)
	list := spec.At.Child("devices", "constraints")
	for i, constraint := range walk.Checked(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize, c.server) {
		errs = append(errs, names.checkAll(list.Index(i).Child("requests"), constraint.Requests, c)...)
	}
	return errs
}

func configRequests(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	if len(spec.Devices.Config) == 0 {
		return nil
	}
	names := namesIn(spec)
	list := spec.At.Child("devices", "config")
	for i, config := range walk.Checked(spec.Devices.Config, resourceapi.DeviceConfigMaxSize, c.server) {
		errs = append(errs, names.checkAll(list.Index(i).Child("requests"), config.Requests, c)...)
	}
	return errs
}

func constraintAttribute(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	list := spec.At.Child("devices", "constraints")
	declared := c.Profile.Since(37) && !sameConstraints(spec)
	compared := func(at *field.Path, name resourceapi.FullyQualifiedName) {
		errs = append(errs, referredAttribute(at, name, c)...)
		if declared {
			errs = append(errs, declaredAttribute(at, name)...)
		}
	}
	for i, constraint := range walk.Checked(spec.Devices.Constraints, resourceapi.DeviceConstraintsMaxSize, c.server) {
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
		case c.Profile.Enabled(gateConsumableCapacity):
			errs = append(errs, field.Required(at, "name the attribute to compare: matchAttribute or distinctAttribute"))
		default:
			errs = append(errs, field.Required(at.Child("matchAttribute"), "name the attribute to compare"))
		}
	}
	return errs
}

// sameConstraints reports whether declarative validation passes over the constraints, since
// they are those that are stored.
func sameConstraints(s walk.ClaimSpec) bool {
	return s.Old != nil && equality.Semantic.DeepEqual(s.Old.Devices.Constraints, s.Devices.Constraints)
}

// derivedRules are the rules for the attributes that requests derive from those of the
// devices.
var derivedRules = Table[walk.ClaimSpec]{
	{
		ID: "derived-attributes-max",
		Doc: `A request derives at most 32 attributes.

Each of them is computed for every device that the request considers.`,
		Upstream: "since 1.37, with DRADerivedAttributes",
		Source:   "DeviceDerivedAttributesMaxSize",
		Check:    derivedMax,
	},
	{
		ID: "derived-attribute-form",
		Doc: `A derived attribute has a name with a domain, and an expression.

The domain is a DNS subdomain in lower case, the name after the slash a C identifier
of at most 32 bytes.`,
		Upstream: "since 1.37, with DRADerivedAttributes",
		Source:   "DeviceDerivedAttribute, declarative validation",
		Check:    derivedForm,
	},
	{
		ID: "derived-attribute-used",
		Doc: `A derived attribute has a unique name, and a constraint of the claim compares it.

Nothing else can read it, so it has no effect without a constraint for its request.`,
		Upstream: "since 1.37, with DRADerivedAttributes",
		Source:   "validateDeviceDerivedAttribute",
		Check:    derivedUsed,
	},
	{
		ID: "derived-attribute-expression",
		Doc: `The expression of a derived attribute compiles to the value of an attribute.

It has at most 10240 bytes and an estimated cost of at most 1,000,000. The cost limit
applies to each expression, and to all expressions of a claim together.`,
		Upstream: "since 1.37, with DRADerivedAttributes",
		Source:   "DeviceClaimDerivedAttributeCELMaxCost",
		Check:    derivedExpression,
	},
}

func derivedMax(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, deviceRequest := range spec.CheckedDeviceRequests(walk.Declarative, c.server) {
		if !hadDerived(spec, deviceRequest) {
			errs = append(errs, form.AtMostIn(at, "derivedAttributes", len(deviceRequest.Derived), resourceapi.DeviceDerivedAttributesMaxSize)...)
		}
	}
	return errs
}

// hadDerived reports whether the stored spec derives the same attributes for a device request.
// Declarative validation then does not look at them.
func hadDerived(s walk.ClaimSpec, d walk.DeviceRequest) bool {
	if s.Old == nil {
		return false
	}
	stored := walk.ClaimSpec{At: s.At, ResourceClaimSpec: s.Old}
	for _, before := range stored.DeviceRequests() {
		if before.Name == d.Name {
			return equality.Semantic.DeepEqual(before.Derived, d.Derived)
		}
	}
	return false
}

// derived walks the derived attributes of all device requests, each with its device request.
func derivedOf(s walk.ClaimSpec, by walk.Reader, c Pass) iter.Seq2[*field.Path, derivedAttribute] {
	return func(yield func(*field.Path, derivedAttribute) bool) {
		for at, deviceRequest := range s.CheckedDeviceRequests(by, c.server) {
			if len(deviceRequest.Derived) == 0 {
				continue
			}
			list := at.Child("derivedAttributes")
			for i, attribute := range deviceRequest.Derived {
				if !yield(list.Index(i), derivedAttribute{attribute, deviceRequest}) {
					return
				}
			}
		}
	}
}

type derivedAttribute struct {
	resourceapi.DeviceDerivedAttribute
	DeviceRequest walk.DeviceRequest
}

func derivedForm(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	for at, attribute := range derivedOf(spec, walk.Declarative, c) {
		if len(attribute.DeviceRequest.Derived) > resourceapi.DeviceDerivedAttributesMaxSize || hadDerived(spec, attribute.DeviceRequest) {
			continue
		}
		if attribute.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), "name the attribute, such as example.com/numa"))
		} else {
			errs = append(errs, declaredAttribute(at.Child("name"), attribute.Name)...)
		}
		if attribute.Expression == "" {
			errs = append(errs, field.Required(at.Child("expression"), "write the expression that computes the attribute"))
		}
	}
	return errs
}

func derivedUsed(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	compared := comparedBy(spec)
	for at, deviceRequest := range spec.CheckedDeviceRequests(walk.Handwritten, c.server) {
		if len(deviceRequest.Derived) == 0 {
			continue
		}
		list := at.Child("derivedAttributes")
		request, _, _ := strings.Cut(deviceRequest.Name, "/")
		seen := map[resourceapi.FullyQualifiedName]bool{}
		for i, attribute := range deviceRequest.Derived {
			name := attribute.Name
			if seen[name] {
				errs = append(errs, field.Duplicate(list.Index(i), name))
			}
			seen[name] = true
			if name != "" && !compared[comparison{"", name}] && !compared[comparison{request, name}] && !compared[comparison{deviceRequest.Name, name}] {
				errs = append(errs, field.Invalid(list.Index(i).Child("name"), name, "no constraint for this request compares it"))
			}
		}
	}
	return errs
}

// comparison is an attribute that a constraint compares on the devices of a request,
// of all requests if that is empty.
type comparison struct {
	request   string
	attribute resourceapi.FullyQualifiedName
}

func comparedBy(s walk.ClaimSpec) map[comparison]bool {
	compared := map[comparison]bool{}
	for _, constraint := range s.Devices.Constraints {
		attribute := constraint.MatchAttribute
		if attribute == nil {
			attribute = constraint.DistinctAttribute
		}
		if attribute == nil {
			continue
		}
		if len(constraint.Requests) == 0 {
			compared[comparison{"", *attribute}] = true
		}
		for _, request := range constraint.Requests {
			compared[comparison{request, *attribute}] = true
		}
	}
	return compared
}

func derivedExpression(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	if c.Expressions == nil {
		c.Expressions = &Expressions{}
	}
	var sum uint64
	for at, attribute := range derivedOf(spec, walk.Handwritten, c) {
		if attribute.Expression == "" {
			continue
		}
		found, cost := expressionErrors(at.Child("expression"), attribute.Expression, true, c)
		errs = append(errs, found...)
		sum += cost
	}
	if sum > resourceapi.DeviceClaimDerivedAttributeCELMaxCost {
		errs = append(errs, field.Forbidden(spec.At.Child("devices"), "the derived attributes together are too complex; bound what they iterate over"))
	}
	return errs
}

// referredNames are the requests to which a claim's constraints, configurations and
// results may refer, each with its alternatives.
type referredNames map[string]map[string]bool

func namesIn(s walk.ClaimSpec) referredNames {
	names := referredNames{}
	for _, request := range s.Devices.Requests {
		alternatives := map[string]bool{}
		for _, alternative := range request.FirstAvailable {
			alternatives[alternative.Name] = true
		}
		names[request.Name] = alternatives
	}
	return names
}

// check reports a text that is neither request nor request/alternative.
func (n referredNames) check(at *field.Path, name string) (errs field.ErrorList) {
	const unknown = "must be the name of a request of the claim, or request/alternative"
	request, alternative, both := strings.Cut(name, "/")
	if strings.Contains(alternative, "/") {
		return field.ErrorList{field.Invalid(at, name, unknown)}
	}
	errs = form.AllOf(at, request, validation.IsDNS1123Label(request))
	if both {
		errs = append(errs, form.AllOf(at, alternative, validation.IsDNS1123Label(alternative))...)
	}
	if alternatives, known := n[request]; !known || both && !alternatives[alternative] {
		errs = append(errs, field.Invalid(at, name, unknown))
	}
	return errs
}

// checkAll reports what is wrong with a list of names, and names that occur twice.
func (n referredNames) checkAll(at *field.Path, list []string, c Pass) (errs field.ErrorList) {
	errs = form.AtMost(at, len(list), resourceapi.DeviceRequestsMaxSize)
	seen := map[string]bool{}
	for i, name := range walk.Checked(list, resourceapi.DeviceRequestsMaxSize, c.server) {
		errs = append(errs, n.check(at.Index(i), name)...)
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		seen[name] = true
	}
	return errs
}
