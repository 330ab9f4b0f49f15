package apiserver

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// TestLiftKeepsAllChecks: a rule of a part keeps each of its checks, and what it says of
// itself, as a rule of the whole.
func TestLiftKeepsAllChecks(t *testing.T) {
	says := func(what string) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath("spec"), what, "")}
	}
	rules := Table[int]{{
		ID: "a", Doc: "d", Upstream: "u", Source: "s",
		Check:        func(int, Pass) field.ErrorList { return says("check") },
		Update:       func(int, int, Pass) field.ErrorList { return says("update") },
		preAdmission: func(int, Pass) field.ErrorList { return says("preAdmission") },
	}}
	for name, lifted := range map[string]Table[string]{
		"lift":    lift(func(s string) int { return len(s) }, rules),
		"liftFor": liftFor(func(s string, _ walk.Server) int { return len(s) }, rules),
	} {
		rule := lifted[0]
		if rule.ID != "a" || rule.Doc != "d" || rule.Upstream != "u" || rule.Source != "s" {
			t.Errorf("%s: %+v", name, rule)
		}
		for what, errs := range map[string]field.ErrorList{
			"check":        lifted.Validate("", Conditions{}),
			"update":       lifted.ValidateUpdate("", "", Conditions{}),
			"preAdmission": rule.PreAdmission("", Conditions{}),
		} {
			if len(errs) != 1 || errs[0].BadValue != what {
				t.Errorf("%s: %s: %v", name, what, errs)
			}
		}
	}
}
