package review

import (
	"slices"

	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// leaveToPolicies takes out what rules have found where a policy says the same: a
// problem is reported once. Where evaluating the policy failed, the rule stays.
func (a *Answer) leaveToPolicies(engine *policy.Engine, req policy.Request) {
	failed := func(code string) bool {
		return slices.ContainsFunc(a.Decision.Failures, func(f policy.Failure) bool { return f.Code == code || f.Code == "" })
	}
	a.Findings = slices.DeleteFunc(a.Findings, func(f Finding) bool {
		code, replaced := engine.InsteadOf(f.Rule, req)
		return replaced && !failed(code)
	})
}

// warnOfPolicies lets no policy deny a slice: a driver that cannot publish is worse than
// anything that a policy may find.
func (a *Answer) warnOfPolicies() {
	for i, f := range a.Findings {
		if IsPolicy(f.Rule) {
			a.Findings[i].Severity = max(f.Severity, validate.Warning)
		}
	}
}
