package policy

import "slices"

// InsteadOf returns the code of the policy that takes over from a rule of pkg/validate
// for a kind in a namespace. A policy that is off takes over from nobody.
func (e *Engine) InsteadOf(rule, kind, namespace string) (code string, found bool) {
	if e.disabled {
		return "", false
	}
	in := e.scopes.in(namespace)
	for _, policy := range e.set.policies {
		if in.modes[policy.Code] != Off && slices.Contains(policy.Replaces, rule) && slices.Contains(policy.Kinds, kind) {
			return policy.Code, true
		}
	}
	return "", false
}
