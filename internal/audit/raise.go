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
	if today.Policies == nil {
		return c
	}
	modes := maps.Clone(c.Policies.Modes)
	if modes == nil {
		modes = map[string]v1alpha1.PolicyMode{}
	}
	for _, p := range today.Policies.Set().Policies() {
		mode, set := c.Policies.Modes[p.Code]
		if !set {
			mode = v1alpha1.PolicyMode(p.Mode)
		}
		if raise(p.Code, mode == v1alpha1.PolicyMode(policy.Off)) {
			modes[p.Code] = v1alpha1.PolicyMode(policy.Deny)
		}
	}
	c.Policies.Modes = modes
	c.Policies.Disabled = false
	c.Policies.Namespaces = slices.Clone(c.Policies.Namespaces)
	for i, n := range c.Policies.Namespaces {
		n.Modes = maps.Clone(n.Modes)
		for code, mode := range n.Modes {
			if mode != v1alpha1.PolicyMode(policy.Off) && raise(code, false) {
				n.Modes[code] = v1alpha1.PolicyMode(policy.Deny)
			}
		}
		c.Policies.Namespaces[i] = n
	}
	return c
}
