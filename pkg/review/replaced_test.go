package review_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// found lists what denies or warns, by rule or code.
func found(t *testing.T, r review.Reviewer, kind, object string) (ids []string) {
	t.Helper()
	req := request("v1", kind, "", object, "")
	req.Namespace, req.User = "b", who("jane")
	answer, err := r.Validate(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range answer.Findings {
		ids = append(ids, f.Severity.String()+" "+f.Rule)
	}
	return ids
}

// TestOneThingOnce: of a rule and a policy that say the same, the policy says it, and the
// rule where the policy does not.
func TestOneThingOnce(t *testing.T) {
	policies := func(p v1alpha1.Policies) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Policies: p}
	}
	off := func(code string) v1alpha1.StewardConfiguration {
		return policies(v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{code: "off"}})
	}
	const (
		everything = `{"metadata":{"name":"a"},"spec":{"deviceSelector":{},"taint":{"key":"example.com/a","effect":"NoExecute"}}}`
		poolOnly   = `{"metadata":{"name":"a"},"spec":{"deviceSelector":{"pool":"node-1"},"taint":{"key":"example.com/a","effect":"NoSchedule"}}}`
		ignored    = `{"metadata":{"name":"a","namespace":"b"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1,"tolerations":[{"key":"k","operator":"Exists","effect":"NoSchedule","tolerationSeconds":3}]}}]}}}`
		constant   = `{"metadata":{"name":"a","namespace":"b"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1,"selectors":[{"cel":{"expression":"true"}}]}}]}}}`
	)
	for name, tt := range map[string]struct {
		site         v1alpha1.StewardConfiguration
		kind, object string
		want         string
	}{
		"empty key":                 {policies(v1alpha1.Policies{}), "ResourceClaim", tolerant, "error DRA-TOL-001, warning DRA-TOL-002, warning DRA-TOL-004"},
		"empty key, policy off":     {off("DRA-TOL-001"), "ResourceClaim", tolerant, "error toleration-empty-key, warning DRA-TOL-002, warning DRA-TOL-004"},
		"empty key, policies off":   {policies(v1alpha1.Policies{Disabled: true}), "ResourceClaim", tolerant, "error toleration-empty-key"},
		"empty key, audited":        {policies(v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-001": "audit"}}), "ResourceClaim", tolerant, "warning DRA-TOL-002, warning DRA-TOL-004"},
		"empty key, allowed":        {policies(v1alpha1.Policies{Parameters: map[string]json.RawMessage{"DRA-TOL-001": json.RawMessage(`{"allowed": true}`)}}), "ResourceClaim", tolerant, "warning DRA-TOL-002, warning DRA-TOL-004"},
		"ignored seconds":           {policies(v1alpha1.Policies{}), "ResourceClaim", ignored, "warning DRA-TOL-006"},
		"everything":                {policies(v1alpha1.Policies{}), "DeviceTaintRule", everything, "error DRA-RULE-001, warning DRA-RULE-003, warning DRA-RULE-007"},
		"everything, on 1.34":       {v1alpha1.StewardConfiguration{Server: v1alpha1.Server{KubernetesVersion: "1.34"}}, "DeviceTaintRule", everything, "error DRA-RULE-001, warning DRA-RULE-007"}, // there is no effect None
		"everything, policies off":  {policies(v1alpha1.Policies{Disabled: true}), "DeviceTaintRule", everything, "error taint-rule-everything"},
		"a pool of any driver":      {policies(v1alpha1.Policies{}), "DeviceTaintRule", poolOnly, "warning DRA-RULE-002, warning DRA-RULE-007"},
		"constant selector":         {policies(v1alpha1.Policies{}), "ResourceClaim", constant, "warning DRA-CLAIM-007"},
		"constant selector, class":  {policies(v1alpha1.Policies{}), "DeviceClass", `{"metadata":{"name":"a"},"spec":{"selectors":[{"cel":{"expression":"true"}}]}}`, "warning selector-constant"},
		"constant selector, no set": {off("DRA-CLAIM-007"), "ResourceClaim", constant, "warning selector-constant"},
	} {
		t.Run(name, func(t *testing.T) {
			got := found(t, withPolicies(t, tt.site), tt.kind, tt.object)
			slices.Sort(got)
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestRuleStaysWhereThePolicyFails: a policy that cannot be evaluated replaces no rule.
func TestRuleStaysWhereThePolicyFails(t *testing.T) {
	broken := policy.Collection{Name: "site", Files: fstest.MapFS{"p.rego": {Data: []byte(`# METADATA
# title: Test
# description: Test.
# custom:
#   code: DRA-TOL-001
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
#   replaces: [toleration-empty-key]
package dra.custom.test

deny contains {"paths": [], "message": "x"} if to_number(input.namespace) > 1
`)}}}
	got := found(t, withPolicies(t, v1alpha1.StewardConfiguration{}, broken), "ResourceClaim", tolerant)
	if !slices.Contains(got, "error toleration-empty-key") || !slices.Contains(got, "error DRA-TOL-001") {
		t.Errorf("got %q", got)
	}
}

// TestSlicesAreNotDenied: whatever the mode, a policy only warns about a slice.
func TestSlicesAreNotDenied(t *testing.T) {
	site := v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{"DRA-RULE-006": "deny"}}}
	const slice = `{"metadata":{"name":"a"},"spec":{"driver":"gpu.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n","devices":[{"name":"d","taints":[{"key":"gpu.nvidia.com/xid","effect":"NoSchedule","timeAdded":"2026-01-02T03:04:05Z"}]}]}}`
	if got := found(t, withPolicies(t, site), "ResourceSlice", slice); !slices.Contains(got, "warning DRA-RULE-006") {
		t.Errorf("got %q", got)
	}
	const rule = `{"metadata":{"name":"a"},"spec":{"deviceSelector":{"driver":"gpu.example.com"},"taint":{"key":"gpu.nvidia.com/xid","effect":"NoSchedule"}}}`
	if got := found(t, withPolicies(t, site), "DeviceTaintRule", rule); !slices.Contains(got, "error DRA-RULE-006") {
		t.Errorf("got %q", got)
	}
}
