package review_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// withPolicies is a Reviewer with the library and what a site has decided.
func withPolicies(t *testing.T, c v1alpha1.StewardConfiguration, sources ...policy.Collection) review.Reviewer {
	t.Helper()
	r, err := review.New(c)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := review.PolicySettings(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(t.Context(), append([]policy.Collection{policy.Library()}, sources...)...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Policies, err = policy.NewEngine(set, settings); err != nil {
		t.Fatal(err)
	}
	r.InCluster = true
	return r
}

const tolerant = `{"metadata":{"name":"a","namespace":"b"},"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1,"tolerations":[{}]}}]}}}`

func who(user string, groups ...string) *authenticationv1.UserInfo {
	return &authenticationv1.UserInfo{Username: user, Groups: groups}
}

// findings of one code, as severity and path.
func findings(t *testing.T, r review.Reviewer, req review.Request, code string) (found []string) {
	t.Helper()
	answer, err := r.Validate(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range answer.Findings {
		if f.Rule == code {
			found = append(found, f.Severity.String()+" "+f.Path)
		}
	}
	for _, e := range answer.Exempted {
		if e.Rule == code {
			found = append(found, "exempted "+e.Reason)
		}
	}
	for _, f := range answer.Audited {
		if f.Rule == code {
			found = append(found, "audited "+f.Path)
		}
	}
	return found
}

// TestPolicies: the answer about {} by mode, namespace, author and exemption.
func TestPolicies(t *testing.T) {
	const code, path = "DRA-TOL-001", "spec.devices.requests[gpu].exactly.tolerations[0].key"
	later, earlier := metav1.NewTime(now.Add(time.Hour)), metav1.NewTime(now.Add(-time.Hour))
	mode := func(mode string) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{code: v1alpha1.PolicyMode(mode)}}}
	}
	exempt := func(until metav1.Time) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{{Rules: []string{code}, Namespaces: []string{"b"}, Reason: "migration", Expires: until}}}
	}
	for name, tt := range map[string]struct {
		site v1alpha1.StewardConfiguration
		user *authenticationv1.UserInfo
		want string
	}{
		"as it ships":       {v1alpha1.StewardConfiguration{}, who("jane"), "error " + path},
		"offline":           {v1alpha1.StewardConfiguration{}, nil, "error " + path},
		"warn":              {mode("warn"), who("jane"), "warning " + path},
		"audit":             {mode("audit"), who("jane"), "audited " + path},
		"off":               {mode("off"), who("jane"), ""},
		"kill switch":       {v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Disabled: true}}, who("jane"), ""},
		"exempt":            {exempt(later), who("jane"), "exempted migration"},
		"exemption expired": {exempt(earlier), who("jane"), "error " + path},
		"parameter of the namespace": {v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Namespaces: []v1alpha1.PolicyNamespaces{
			{Names: []string{"b"}, Parameters: map[string]json.RawMessage{code: json.RawMessage(`{"allowed": true}`)}}}}}, who("jane"), ""},
		"the scheduler":        {v1alpha1.StewardConfiguration{}, who("system:kube-scheduler"), "exempted written by a component of Kubernetes (systemUsers)"},
		"the claim controller": {v1alpha1.StewardConfiguration{}, who("system:serviceaccount:kube-system:resource-claim-controller"), "warning " + path},
		"somebody of its name": {v1alpha1.StewardConfiguration{}, who("system:serviceaccount:b:resource-claim-controller"), "error " + path},
	} {
		t.Run(name, func(t *testing.T) {
			req := request("v1", "ResourceClaim", "", tolerant, "")
			req.Namespace, req.User = "b", tt.user
			if got := strings.Join(findings(t, withPolicies(t, tt.site), req, code), "\n"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestIdentityIsNotWritten: what an author can write into an object makes them no other user
// else: no annotation of the scheduler, no forged owner, no label.
func TestIdentityIsNotWritten(t *testing.T) {
	r := withPolicies(t, v1alpha1.StewardConfiguration{})
	for _, metadata := range []string{
		`"annotations":{"resource.kubernetes.io/extended-resource-claim":"true","resource.kubernetes.io/pod-claim-name":"x"}`,
		`"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}]`,
		`"labels":{"dra-steward.io/exempt":"true","kubernetes.io/metadata.name":"kube-system"}`,
		`"managedFields":[{"manager":"kube-scheduler"}]`,
	} {
		req := request("v1", "ResourceClaim", "", strings.Replace(tolerant, `"metadata":{`, `"metadata":{`+metadata+`,`, 1), "")
		req.Namespace, req.User = "b", who("jane")
		if got := findings(t, r, req, "DRA-TOL-001"); len(got) != 1 || !strings.HasPrefix(got[0], "error") {
			t.Errorf("%s: %q", metadata, got)
		}
	}
}

// TestPolicyErrors: a policy that cannot be evaluated denies, unless the site only wants a
// warning; the others are evaluated.
func TestPolicyErrors(t *testing.T) {
	source := policy.Collection{Name: "site", Files: fstest.MapFS{"p.rego": {Data: []byte(`# METADATA
# title: Test
# description: Test.
# custom:
#   code: SITE-001
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
package dra.custom.test

deny contains {"paths": [], "message": "x"} if to_number(input.namespace) > 1
`)}}}
	for mode, want := range map[v1alpha1.PolicyMode]string{"": "error ", "warn": "warning ", "deny": "error "} {
		r := withPolicies(t, v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{OnError: mode}}, source)
		req := request("v1", "ResourceClaim", "", tolerant, "")
		req.Namespace = "b"
		if got := findings(t, r, req, "SITE-001"); !slices.Equal(got, []string{want}) {
			t.Errorf("%q: %q, want %q", mode, got, want)
		}
		if got := findings(t, r, req, "DRA-TOL-001"); len(got) != 1 {
			t.Errorf("%q: the other policy says %q", mode, got)
		}
	}
}

// TestPolicySettings names every wrong field.
func TestPolicySettings(t *testing.T) {
	_, err := review.PolicySettings(v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{
		Modes: map[string]v1alpha1.PolicyMode{"A-1": "x"}, Parameters: map[string]json.RawMessage{"A-1": json.RawMessage("[]")},
		OnError: "audit", Timeout: &metav1.Duration{Duration: time.Minute}, Namespaces: []v1alpha1.PolicyNamespaces{{}},
	}})
	for _, place := range []string{"policies.modes[A-1]", "policies.parameters[A-1]", "policies.onError", "policies.timeout", "policies.namespaces[0].names"} {
		if !strings.Contains(fmt.Sprint(err), place) {
			t.Errorf("%s is not named: %v", place, err)
		}
	}
}
