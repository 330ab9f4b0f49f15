package admissionpolicy_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/rules/admissionpolicy"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func export(t *testing.T, settings policy.Settings, change func(*admissionpolicy.Options)) admissionpolicy.Exported {
	t.Helper()
	o := admissionpolicy.Options{Sources: []policy.Collection{policy.Library()}, Now: now}
	if change != nil {
		change(&o)
	}
	set, err := policy.Parse(t.Context(), o.Sources...)
	if err != nil {
		t.Fatal(err)
	}
	if o.Engine, err = policy.NewEngine(set, settings); err != nil {
		t.Fatal(err)
	}
	out, err := admissionpolicy.Export(o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEveryPolicySaysIt: a policy of the library is exported or says why not.
func TestEveryPolicySaysIt(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]policy.Mode{}
	for _, m := range set.Policies() {
		modes[m.Code] = policy.Warn
	}
	out := export(t, policy.Settings{Modes: modes}, nil)
	for _, one := range out.Policies {
		delete(modes, one.Labels["dra-steward.io/policy-code"])
	}
	var left []string
	for _, one := range out.Left {
		if strings.Contains(one.Reason, admissionpolicy.FileName) {
			t.Errorf("%s: %s: write one", one.Code, one.Reason)
		}
		left = append(left, one.Code)
		delete(modes, one.Code)
	}
	if len(modes) > 0 {
		t.Errorf("neither exported nor left: %v", modes)
	}
	if want := []string{"DRA-CLAIM-005", "DRA-CLAIM-007", "DRA-RULE-003", "DRA-RULE-004", "DRA-RULE-005", "DRA-TOL-008"}; !slices.Equal(left, want) {
		t.Errorf("left out, all or in part, are %v, want %v", left, want)
	}
}

// TestLimitOfTolerations: what is exported checks as many tolerations as the webhook does, and
// refuses more.
func TestLimitOfTolerations(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]string{0: "512", 100: "100"} {
		settings := policy.Settings{Limits: policy.Limits{Tolerations: limit}}
		engine, err := policy.NewEngine(set, settings)
		if err != nil {
			t.Fatal(err)
		}
		out := export(t, settings, func(o *admissionpolicy.Options) { o.Tolerations = limit })
		i := slices.IndexFunc(out.Policies, func(p admissionv1.ValidatingAdmissionPolicy) bool { return p.Name == "dra-steward-dra-tol-001" })
		one := out.Policies[i].Spec
		if !slices.ContainsFunc(one.Variables, func(v admissionv1.Variable) bool { return v.Name == "most" && v.Expression == want }) ||
			!strings.HasPrefix(one.Validations[len(one.Validations)-1].Message, "there are more than "+want+" tolerations") {
			t.Errorf("limit %d: variables %v, validations %v", limit, one.Variables, one.Validations)
		}
		most, err := strconv.Atoi(want)
		if err != nil {
			t.Fatal(err)
		}
		for n, tooLarge := range map[int]bool{most: false, most + 1: true} {
			claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
				Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{Tolerations: slices.Repeat([]resourceapi.DeviceToleration{{Key: "example.com/a"}}, n)},
			}}}}}
			decision := engine.Evaluate(t.Context(), policy.Request{Kind: "ResourceClaim", Object: claim, Now: now})
			if got := len(decision.Failures) > 0 && decision.Failures[0].TooLarge; got != tooLarge {
				t.Errorf("%d tolerations are too many for the webhook: %t, want %t", n, got, tooLarge)
			}
		}
	}
}

// TestScopes: modes, parameters and exemptions of a site are in what is exported.
func TestScopes(t *testing.T) {
	settings := policy.Settings{
		Modes:      map[string]policy.Mode{"DRA-TOL-005": policy.Deny, "DRA-TOL-001": policy.Off},
		Parameters: map[string]map[string]any{"DRA-TOL-005": {"maxSeconds": json.Number("60")}},
		Namespaces: []policy.Override{
			{Names: []string{"batch", "night"}, Parameters: map[string]map[string]any{"DRA-TOL-005": {"maxSeconds": json.Number("600")}}},
			{Names: []string{"drivers"}, Modes: map[string]policy.Mode{"DRA-TOL-005": policy.Off}},
		},
	}
	exemption := func(reason string, expires time.Time) v1alpha1.Exemption {
		return v1alpha1.Exemption{Rules: []string{"DRA-TOL-005"}, Users: []string{"ana"}, Namespaces: []string{"ml"}, Reason: reason, Expires: metav1.NewTime(expires)}
	}
	out := export(t, settings, func(o *admissionpolicy.Options) {
		o.Overridden = []string{"night", "drivers", "batch"}
		o.SystemUsers = []string{"system:kube-scheduler"}
		o.ExcludedNamespaces = []string{"kube-system"}
		o.Exemptions = []v1alpha1.Exemption{exemption("migration", now.Add(time.Hour)), exemption("over", now.Add(-time.Hour))}
	})
	var got []string
	for i, one := range out.Policies {
		if one.Labels["dra-steward.io/policy-code"] == "DRA-TOL-001" {
			t.Error("a policy that is off was exported")
		}
		if one.Labels["dra-steward.io/policy-code"] != "DRA-TOL-005" {
			continue
		}
		got = append(got, one.Name, string(out.Bindings[i].Spec.ValidationActions[0]), one.Spec.Variables[0].Name+" = "+one.Spec.Variables[0].Expression)
		for _, c := range one.Spec.MatchConditions {
			got = append(got, c.Name+": "+c.Expression)
		}
	}
	exempt := `exemption-0: !((request.userInfo.username in ["ana"]) && request.?namespace.orValue('') in ["ml"])`
	system := `not-a-component-of-kubernetes: !(request.userInfo.username in ["system:kube-scheduler"])`
	want := []string{
		"dra-steward-dra-tol-005", "Deny", "parameter_maxSeconds = 60", system, `namespaces: !(request.?namespace.orValue('') in ["batch","drivers","night"])`, exempt,
		"dra-steward-dra-tol-005-2", "Deny", "parameter_maxSeconds = 600", system, `namespaces: request.?namespace.orValue('') in ["batch","night"]`, exempt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if i := slices.IndexFunc(out.Left, func(l admissionpolicy.Left) bool { return l.Code == "DRA-TOL-005" }); i < 0 || !strings.Contains(out.Left[i].Reason, "2026-01-02T04:04:05Z") {
		t.Errorf("left %v: want the end of the exemption", out.Left)
	}
	for _, one := range out.Policies {
		if one.Spec.MatchConstraints.NamespaceSelector == nil {
			t.Errorf("%s has no namespaceSelector", one.Name)
		}
	}
}

// TestPartsOfPolicies: with every policy on deny, no binding refuses slices, claims that cannot be
// evaluated are refused, and updates of other objects count where the spec changes.
func TestPartsOfPolicies(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]bool{}
	for _, mode := range []policy.Mode{policy.Warn, policy.Deny} {
		modes := map[string]policy.Mode{}
		for _, m := range set.Policies() {
			modes[m.Code] = mode
		}
		out := export(t, policy.Settings{Modes: modes}, nil)
		for i, one := range out.Policies {
			if out.Bindings[i].Spec.PolicyName != one.Name {
				t.Fatalf("binding %d is of %s, want %s", i, out.Bindings[i].Spec.PolicyName, one.Name)
			}
			updates := slices.ContainsFunc(one.Spec.MatchConditions, func(c admissionv1.MatchCondition) bool { return c.Name == "spec-changes" })
			what := fmt.Sprintf("%s %s, updates of specs: %t", out.Bindings[i].Spec.ValidationActions[0], *one.Spec.FailurePolicy, updates)
			for _, rule := range one.Spec.MatchConstraints.ResourceRules {
				key := string(mode) + " " + rule.Resources[0]
				if got[key] == nil {
					got[key] = map[string]bool{}
				}
				got[key][what] = true
			}
		}
	}
	want := map[string]map[string]bool{
		"warn resourceclaims":         {"Warn Ignore, updates of specs: false": true},
		"warn resourceclaimtemplates": {"Warn Ignore, updates of specs: false": true},
		"warn devicetaintrules":       {"Warn Ignore, updates of specs: true": true},
		"warn resourceslices":         {"Warn Ignore, updates of specs: false": true},
		"deny resourceclaims":         {"Deny Fail, updates of specs: false": true},
		"deny resourceclaimtemplates": {"Deny Fail, updates of specs: false": true},
		"deny devicetaintrules":       {"Deny Ignore, updates of specs: true": true},
		"deny resourceslices":         {"Warn Ignore, updates of specs: false": true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSite: a policy of the site counts with its own files, never with what
// stands beside the policy that it replaces. A mistake there names the file.
func TestSite(t *testing.T) {
	text, err := fs.ReadFile(policy.Library().Files, "wildcard-key/policy.rego")
	if err != nil {
		t.Fatal(err)
	}
	for rules, problem := range map[string]string{
		"violations: [{when: 'true'}]":        "violations[0]: needs when and message",
		"violations: []\nimpossible: x\na: 1": `unknown field "a"`,
		"{}":                                  "needs either violations",
		"{impossible: x, partly: y}":          "partly is about violations",
		"[":                                   "yaml",
		"":                                    "",
	} {
		files := fstest.MapFS{"wildcard-key/policy.rego": {Data: text}}
		if rules != "" {
			files["wildcard-key/admission.yaml"] = &fstest.MapFile{Data: []byte(rules)}
		}
		sources := []policy.Collection{policy.Library(), {Name: "site", Files: files}}
		set, err := policy.Parse(t.Context(), sources...)
		if err != nil {
			t.Fatal(err)
		}
		engine, err := policy.NewEngine(set, policy.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := admissionpolicy.Export(admissionpolicy.Options{Engine: engine, Sources: sources})
		if problem == "" {
			none := func(l admissionpolicy.Left) bool {
				return l.Code == "DRA-TOL-001" && strings.Contains(l.Reason, "no admission.yaml")
			}
			if err != nil || !slices.ContainsFunc(out.Left, none) {
				t.Errorf("without a file: %v, left %v", err, out.Left)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), "site: wildcard-key/admission.yaml") {
			t.Errorf("%q: got %v, want an error with %s and the file", rules, err, problem)
		}
	}
}

// TestDefaults: every default is exported or says why not, and what a site has switched
// off is not exported.
func TestDefaults(t *testing.T) {
	said := map[string]string{}
	policies, bindings, left := admissionpolicy.ExportDefaults(admissionpolicy.Options{}, v1alpha1.Defaults{Tolerations: &v1alpha1.Tolerations{}})
	if len(policies) != 1 || len(bindings) != 1 || bindings[0].Spec.PolicyName != policies[0].Name {
		t.Errorf("policies %v, bindings %v: want one of each", policies, bindings)
	}
	for _, l := range left {
		said[l.Code] = l.Reason
	}
	for _, d := range mutate.Defaults() {
		if reason := said[d.ID]; reason == "" || reason == "has no form in CEL" {
			t.Errorf("%s: %q: say in mutating.go why CEL cannot express it", d.ID, reason)
		}
	}
	for _, mode := range []v1alpha1.FinalizerMode{v1alpha1.FinalizerOff, v1alpha1.FinalizerRepair} {
		if policies, _, _ := admissionpolicy.ExportDefaults(admissionpolicy.Options{}, v1alpha1.Defaults{Finalizer: mode}); len(policies) > 0 {
			t.Errorf("%s: exported %v", mode, policies)
		}
	}
}

// TestSelectorsAreLeftOut: an exemption that selects by labels exempts no user in CEL.
func TestSelectorsAreLeftOut(t *testing.T) {
	plain := export(t, policy.Settings{}, nil)
	out := export(t, policy.Settings{}, func(o *admissionpolicy.Options) {
		o.Exemptions = []v1alpha1.Exemption{{Rules: []string{"*"}, Reason: "gold", Expires: metav1.NewTime(now.Add(time.Hour)),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}}
	})
	if len(out.Left) <= len(plain.Left) || len(out.Policies) != len(plain.Policies) {
		t.Fatalf("left %v", out.Left)
	}
	for i := range out.Policies {
		if len(out.Policies[i].Spec.MatchConditions) != len(plain.Policies[i].Spec.MatchConditions) {
			t.Errorf("%s: %v", out.Policies[i].Name, out.Policies[i].Spec.MatchConditions)
		}
	}
}
