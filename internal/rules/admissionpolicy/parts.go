package admissionpolicy

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// A part is a ValidatingAdmissionPolicy for those kinds of a policy that are treated alike.
type part struct {
	name  string
	kinds []string
	group kindGroup
}

// A kindGroup is what happens to objects of some kinds that violate a policy, and to those that
// the API server cannot evaluate. The webhooks of the chart do the same.
type kindGroup int

const (
	// claims are refused, also where they cannot be evaluated: their author decides what
	// that costs.
	claims kindGroup = iota
	// administered are refused where they violate a policy.
	administered
	// published are never refused: a driver can always publish.
	published
)

func groupOf(kind string) kindGroup {
	switch kind {
	case "ResourceClaim", "ResourceClaimTemplate":
		return claims
	case "ResourceSlice":
		return published
	}
	return administered
}

// partsOf divides the kinds of a policy. The first part has the name, the others their resource
// at the end.
func partsOf(name string, kinds []string) (parts []part) {
	for _, group := range []kindGroup{claims, administered, published} {
		p := part{name: name, group: group, kinds: slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return groupOf(kind) != group })}
		if len(p.kinds) == 0 {
			continue
		}
		if len(parts) > 0 {
			p.name += "-" + resources[p.kinds[0]].name
		}
		parts = append(parts, p)
	}
	return parts
}

// mode is that of the part where the policy has the given one.
func (p part) mode(mode policy.Mode) policy.Mode {
	if p.group == published && mode == policy.Deny {
		return policy.Warn
	}
	return mode
}

func (p part) failurePolicy(mode policy.Mode) admissionv1.FailurePolicyType {
	if p.group == claims && mode == policy.Deny {
		return admissionv1.Fail
	}
	return admissionv1.Ignore
}

// written are the conditions for the updates that are checked. Updates of claims are not matched.
func (p part) written() []admissionv1.MatchCondition {
	if p.group != administered {
		return nil
	}
	return []admissionv1.MatchCondition{{Name: "spec-changes", Expression: "oldObject == null || object.spec != oldObject.spec"}}
}
