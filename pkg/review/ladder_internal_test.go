package review

import (
	"slices"
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/mode"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestLadder is the table of docs/operations.md.
func TestLadder(t *testing.T) {
	const e, w, a, o = validate.Error, validate.Warning, validate.Audit, validate.Off
	const deny, warn, audit, off = policy.Deny, policy.Warn, policy.Audit, policy.Off
	for mode, want := range map[v1alpha1.Mode]struct {
		rules    [4]validate.Severity // of error, warning, audit, off
		policies [4]policy.Mode       // of deny, warn, audit, off
	}{
		v1alpha1.ModeObserve: {[4]validate.Severity{a, a, a, o}, [4]policy.Mode{audit, audit, audit, off}},
		v1alpha1.ModeWarn:    {[4]validate.Severity{w, w, a, o}, [4]policy.Mode{warn, warn, audit, off}},
		"":                   {[4]validate.Severity{e, w, a, o}, [4]policy.Mode{deny, warn, audit, off}},
		v1alpha1.ModeDefault: {[4]validate.Severity{e, w, a, o}, [4]policy.Mode{deny, warn, audit, off}},
		v1alpha1.ModeEnforce: {[4]validate.Severity{e, w, a, o}, [4]policy.Mode{deny, deny, audit, off}},
	} {
		for i, own := range []validate.Severity{e, w, a, o} {
			if got := ruleSeverity(mode, own); got != want.rules[i] {
				t.Errorf("mode %q: a rule of severity %s becomes %s, want %s", mode, own, got, want.rules[i])
			}
		}
		for i, own := range []policy.Mode{deny, warn, audit, off} {
			if got := policyMode(mode, own); got != want.policies[i] {
				t.Errorf("mode %q: a policy in %s becomes %s, want %s", mode, own, got, want.policies[i])
			}
		}
	}
	// Each step refuses what the step before it refuses, and no step lets more pass.
	weight := []policy.Mode{off, audit, warn, deny}
	all := mode.All()
	for i, stricter := range all[1:] {
		for _, own := range []validate.Severity{e, w, a, o} {
			if ruleSeverity(stricter, own) > ruleSeverity(all[i], own) {
				t.Errorf("%s is less strict than %s for a rule of severity %s", stricter, all[i], own)
			}
		}
		for _, own := range weight {
			if slices.Index(weight, policyMode(stricter, own)) < slices.Index(weight, policyMode(all[i], own)) {
				t.Errorf("%s is less strict than %s for a policy in %s", stricter, all[i], own)
			}
		}
	}
}
