package policy

import "slices"

// InsteadOf returns the code of the policy that takes over from a rule of pkg/validate
// for a write. A policy that is off takes over from nobody.
func (e *Engine) InsteadOf(rule string, req Request) (code string, found bool) {
	if e.disabled {
		return "", false
	}
	in := e.scopes.of(req)
	for _, policy := range e.set.policies {
		if in.modes[policy.Code] != Off && slices.Contains(policy.Replaces, rule) && slices.Contains(policy.Kinds, req.Kind) {
			return policy.Code, true
		}
	}
	return "", false
}
