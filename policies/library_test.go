package policies_test

import (
	"slices"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestReplaces: a policy takes over from rules that exist, of the kinds that it judges.
func TestReplaces(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	rules := validate.Rules()
	for _, p := range set.Policies() {
		for _, id := range p.Replaces {
			at := slices.IndexFunc(rules, func(d validate.Description) bool { return d.ID == id })
			if at < 0 {
				t.Errorf("%s replaces %s, which is no rule", p.Code, id)
				continue
			}
			if !slices.ContainsFunc(p.Kinds, func(kind string) bool { return slices.Contains(rules[at].Kinds, kind) }) {
				t.Errorf("%s replaces %s, which judges only %v", p.Code, id, rules[at].Kinds)
			}
			if rules[at].Category != validate.Gap {
				t.Errorf("%s replaces %s, which repeats the API server: only gap rules can be replaced", p.Code, id)
			}
		}
	}
}

// TestModes: without a decision of the site only that is denied which contradicts the
// documented API, or what evicts everything; the rest warns, or waits for parameters.
func TestModes(t *testing.T) {
	want := map[string]policy.Mode{
		"DRA-TOL-001": policy.Deny, "DRA-TOL-002": policy.Warn, "DRA-TOL-003": policy.Off, "DRA-TOL-004": policy.Warn,
		"DRA-TOL-005": policy.Warn, "DRA-TOL-006": policy.Warn, "DRA-TOL-007": policy.Deny, "DRA-TOL-008": policy.Warn,
		"DRA-RULE-001": policy.Deny, "DRA-RULE-002": policy.Warn, "DRA-RULE-003": policy.Warn, "DRA-RULE-004": policy.Deny,
		"DRA-RULE-005": policy.Deny, "DRA-RULE-006": policy.Warn, "DRA-RULE-007": policy.Warn,
		"DRA-CLAIM-001": policy.Warn, "DRA-CLAIM-002": policy.Warn, "DRA-CLAIM-003": policy.Off, "DRA-CLAIM-004": policy.Off,
		"DRA-CLAIM-005": policy.Warn, "DRA-CLAIM-006": policy.Warn, "DRA-CLAIM-007": policy.Warn,
	}
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range set.Policies() {
		if mode, known := want[p.Code]; !known || p.Mode != mode {
			t.Errorf("%s: mode %s, want %q", p.Code, p.Mode, mode)
		}
		delete(want, p.Code)
	}
	for code := range want {
		t.Errorf("%s is missing", code)
	}
}
