package validate

import (
	"iter"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// derivedRules are the rules for the attributes that requests derive from those of the
// devices.
var derivedRules = Table[claimSpec]{
	{
		ID: "derived-attributes-max",
		Doc: `A request derives at most 32 attributes.

Each of them is computed for each device that the request considers.`,
		Class:  Mirror,
		Server: "since 1.37, with DRADerivedAttributes",
		Source: "DeviceDerivedAttributesMaxSize",
		Check:  derivedMax,
	},
	{
		ID: "derived-attribute-form",
		Doc: `A derived attribute has a name with a domain, and an expression.

The domain is a DNS subdomain in lower case, the name after the slash a C identifier
of at most 32 bytes.`,
		Class:  Mirror,
		Server: "since 1.37, with DRADerivedAttributes",
		Source: "DeviceDerivedAttribute, declarative validation",
		Check:  derivedForm,
	},
	{
		ID: "derived-attribute-used",
		Doc: `A derived attribute has its name for itself, and a constraint of the claim compares it.

Nothing else can see it, so without a constraint for its request it has no effect.`,
		Class:  Mirror,
		Server: "since 1.37, with DRADerivedAttributes",
		Source: "validateDeviceDerivedAttribute",
		Check:  derivedUsed,
	},
	{
		ID: "derived-attribute-expression",
		Doc: `The expression of a derived attribute compiles to the value of an attribute.

It has at most 10240 bytes and a bound of cost. The bound of 1,000,000 holds for each expression, and for all of a claim together.`,
		Class:  Mirror,
		Server: "since 1.37, with DRADerivedAttributes",
		Source: "DeviceClaimDerivedAttributeCELMaxCost",
		Check:  derivedExpression,
	},
}

func derivedMax(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, demand := range spec.judgedDemands(declarative, c) {
		if !spec.hadDerived(demand) {
			errs = append(errs, atMostIn(at, "derivedAttributes", len(demand.derived), resourceapi.DeviceDerivedAttributesMaxSize)...)
		}
	}
	return errs
}

// hadDerived tells whether the stored spec derives the same attributes for a demand.
// Declarative validation then does not look at them.
func (s claimSpec) hadDerived(d demand) bool {
	if s.old == nil {
		return false
	}
	stored := claimSpec{at: s.at, ResourceClaimSpec: s.old}
	for _, before := range stored.demands() {
		if before.name == d.name {
			return equality.Semantic.DeepEqual(before.derived, d.derived)
		}
	}
	return false
}

// derived walks the derived attributes of all demands, each with its demand.
func (s claimSpec) derived(by reader, c Conditions) iter.Seq2[*field.Path, derivedAttribute] {
	return func(yield func(*field.Path, derivedAttribute) bool) {
		for at, demand := range s.judgedDemands(by, c) {
			if len(demand.derived) == 0 {
				continue
			}
			list := at.Child("derivedAttributes")
			for i, attribute := range demand.derived {
				if !yield(list.Index(i), derivedAttribute{attribute, demand}) {
					return
				}
			}
		}
	}
}

type derivedAttribute struct {
	resourceapi.DeviceDerivedAttribute
	demand demand
}

func derivedForm(spec claimSpec, c Conditions) (errs field.ErrorList) {
	for at, attribute := range spec.derived(declarative, c) {
		if len(attribute.demand.derived) > resourceapi.DeviceDerivedAttributesMaxSize || spec.hadDerived(attribute.demand) {
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

func derivedUsed(spec claimSpec, c Conditions) (errs field.ErrorList) {
	compared := spec.compared()
	for at, demand := range spec.judgedDemands(handwritten, c) {
		if len(demand.derived) == 0 {
			continue
		}
		list := at.Child("derivedAttributes")
		request, _, _ := strings.Cut(demand.name, "/")
		seen := map[resourceapi.FullyQualifiedName]bool{}
		for i, attribute := range demand.derived {
			name := attribute.Name
			if seen[name] {
				errs = append(errs, field.Duplicate(list.Index(i), name))
			}
			seen[name] = true
			if name != "" && !compared[comparison{"", name}] && !compared[comparison{request, name}] && !compared[comparison{demand.name, name}] {
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

func (s claimSpec) compared() map[comparison]bool {
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

func derivedExpression(spec claimSpec, c Conditions) (errs field.ErrorList) {
	if c.Expressions == nil {
		c.Expressions = &Expressions{}
	}
	var sum uint64
	for at, attribute := range spec.derived(handwritten, c) {
		if attribute.Expression == "" {
			continue
		}
		found, cost := expressionErrors(at.Child("expression"), attribute.Expression, true, c)
		errs = append(errs, found...)
		sum += cost
	}
	if sum > resourceapi.DeviceClaimDerivedAttributeCELMaxCost {
		errs = append(errs, field.Forbidden(spec.at.Child("devices"), "the derived attributes together are too complex; bound what they iterate over"))
	}
	return errs
}
