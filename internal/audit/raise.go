package audit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// checkRaise refuses names that neither a policy nor a rule has.
func checkRaise(names []string, set *policy.Set) error {
	for _, name := range names {
		known := slices.ContainsFunc(validate.Rules(), func(d validate.Description) bool { return d.ID == name })
		if set != nil && !known {
			_, known = set.Policy(name)
		}
		if !known {
			return fmt.Errorf("there is neither a policy nor a rule %q; \"dra-steward policy list\" and \"dra-steward explain\" list them", name)
		}
	}
	return nil
}

// raised is a configuration with the modes and severities raised to deny: of the names
// also where they are off, of all others, if there are no names, where they are not.
// What a namespace has switched off stays so.
func raised(c v1alpha1.StewardConfiguration, today review.Reviewer, names []string) v1alpha1.StewardConfiguration {
	raise := func(name string, off bool) bool {
		return len(names) == 0 && !off || slices.Contains(names, name)
	}
	rules := maps.Clone(c.Rules)
	if rules == nil {
		rules = map[string]v1alpha1.Rule{}
	}
	for _, d := range validate.Rules() {
		onlySlices := d.CrossObject && slices.Equal(d.Kinds, []string{"ResourceSlice"}) // never denies, see review
		if !onlySlices && raise(d.ID, today.Severity(d.ID) == validate.Off) {
			rules[d.ID] = v1alpha1.Rule{Severity: v1alpha1.Severity(validate.Error.String())}
		}
	}
	c.Rules = rules
	if c.Mode == v1alpha1.ModeObserve {
		c.Mode = v1alpha1.ModeWarn // in observe nothing refuses, not even what policies cannot check
	}
	if today.Policies != nil {
		c.Policies = raisedPolicies(c.Policies, today.Policies.Set().Policies(), raise)
	}
	return c
}

// raisedPolicies are p with the mode deny for those that raise asks for. If policies are disabled,
// the others are off, for a policy that is off replaces no rule.
func raisedPolicies(p v1alpha1.Policies, all []policy.Metadata, raise func(name string, off bool) bool) v1alpha1.Policies {
	const off, deny = v1alpha1.PolicyMode(policy.Off), v1alpha1.PolicyMode(policy.Deny)
	disabled := p.Disabled
	set := func(modes map[string]v1alpha1.PolicyMode, code string, today v1alpha1.PolicyMode) {
		switch {
		case raise(code, disabled || today == off):
			modes[code] = deny
		case disabled:
			modes[code] = off
		}
	}
	modes := maps.Clone(p.Modes)
	if modes == nil {
		modes = map[string]v1alpha1.PolicyMode{}
	}
	for _, one := range all {
		mode, is := p.Modes[one.Code]
		if !is {
			mode = v1alpha1.PolicyMode(one.Mode)
		}
		set(modes, one.Code, mode)
	}
	p.Modes, p.Disabled = modes, false
	p.Namespaces = slices.Clone(p.Namespaces)
	for i, n := range p.Namespaces {
		n.Modes = maps.Clone(n.Modes)
		for code, mode := range n.Modes {
			if mode != off {
				set(n.Modes, code, mode)
			}
		}
		p.Namespaces[i] = n
	}
	return p
}
