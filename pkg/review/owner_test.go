package review_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// ruleOf is a rule on a device with annotations, as JSON.
func ruleOf(device, annotations string) string {
	return fmt.Sprintf(`{"metadata":{"name":"suspect","annotations":{%s}},"spec":{"deviceSelector":{"driver":"gpu.example.com","pool":"node-1","device":%q},"taint":{"key":"example.com/suspect","effect":"NoSchedule"}}}`,
		annotations, device)
}

// TestOwner: a person is asked for the owner and the reason of a taint rule, and no mode of the
// ladder refuses a rule without them; a site can. Controllers are not asked.
func TestOwner(t *testing.T) {
	const owner, reason = `"dra-steward.io/owner":"gpu-team"`, `"dra-steward.io/reason":"fan"`
	jane := who("jane", "system:authenticated", "system:masters")
	driver := who("system:serviceaccount:gpu:driver", "system:serviceaccounts", "system:authenticated")
	denies := v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-RULE-007": "deny"}}}
	for name, tt := range map[string]struct {
		site        v1alpha1.StewardConfiguration
		user        *authenticationv1.UserInfo
		object, old string
		want        string
	}{
		"a person":                    {v1alpha1.StewardConfiguration{}, jane, ruleOf("a", ""), "", "warning"},
		"a person, enforce":           {v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeEnforce}, jane, ruleOf("a", ""), "", "warning"},
		"a person, warn":              {v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeWarn}, jane, ruleOf("a", ""), "", "warning"},
		"a person, observe":           {v1alpha1.StewardConfiguration{Mode: v1alpha1.ModeObserve}, jane, ruleOf("a", ""), "", "audit"},
		"a person, the site denies":   {denies, jane, ruleOf("a", ""), "", "error"},
		"both":                        {v1alpha1.StewardConfiguration{}, jane, ruleOf("a", owner+","+reason), "", ""},
		"an owner":                    {v1alpha1.StewardConfiguration{}, jane, ruleOf("a", owner), "", "warning"},
		"a stored one":                {denies, jane, ruleOf("b", ""), ruleOf("a", ""), "warning"},
		"a stored one gets an owner":  {denies, jane, ruleOf("b", owner), ruleOf("a", ""), "warning"},
		"a stored one loses an owner": {denies, jane, ruleOf("b", ""), ruleOf("a", owner), "error"},
		"a driver":                    {denies, driver, ruleOf("a", ""), "", ""},
		"the controller manager":      {denies, who("system:kube-controller-manager"), ruleOf("a", ""), "", "exempt"},
		"a label of a drain":          {denies, jane, strings.Replace(ruleOf("a", ""), `"name"`, `"labels":{"dra-steward.io/drain":"a"},"name"`, 1), "", "error"},
		"no user, as offline":         {v1alpha1.StewardConfiguration{}, nil, ruleOf("a", ""), "", "warning"},
	} {
		t.Run(name, func(t *testing.T) {
			req := request("v1", "DeviceTaintRule", "", tt.object, tt.old)
			req.User = tt.user
			answer, err := withPolicies(t, tt.site).Validate(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(answer, "DRA-RULE-007"); got != tt.want {
				t.Errorf("%q, want %q: %+v", got, tt.want, answer)
			}
		})
	}
}

// outcome is how an answer has the one finding of a rule; empty if it has none.
func outcome(answer review.Answer, rule string) string {
	var all []string
	for _, f := range answer.Findings {
		if f.Rule == rule {
			all = append(all, f.Severity.String())
		}
	}
	for _, f := range answer.Audited {
		if f.Rule == rule {
			all = append(all, "audit")
		}
	}
	for _, e := range answer.Exempted {
		if e.Rule == rule {
			all = append(all, "exempt")
		}
	}
	return strings.Join(all, " ")
}

// TestOwnerAmongMany: the annotations of dra-steward are read however many others there are,
// and a value of the size that the API allows costs no more than a short one.
func TestOwnerAmongMany(t *testing.T) {
	var all []string
	for i := range 10_000 {
		all = append(all, fmt.Sprintf(`"a.example.com/%d":"x"`, i))
	}
	all = append(all, `"dra-steward.io/owner":"`+strings.Repeat("é", 100_000)+`"`, `"dra-steward.io/reason":"fan"`)
	if got := found(t, withPolicies(t, v1alpha1.StewardConfiguration{}), "DeviceTaintRule", ruleOf("a", strings.Join(all, ","))); len(got) > 0 {
		t.Errorf("%v", got)
	}
}
