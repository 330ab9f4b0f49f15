package audit_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/lint"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func claim(namespace, name, metadata, request string) audit.Object {
	return object("ResourceClaim", fmt.Sprintf(`{"metadata": {"namespace": %q, "name": %q%s}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"%s}}]}}}`,
		namespace, name, metadata, request))
}

func object(kind, text string) audit.Object {
	return audit.Object{Kind: schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: kind}, JSON: []byte(text)}
}

const (
	wildcard = `, "tolerations": [{"operator": "Exists"}]`
	forever  = `, "tolerations": [{"key": "a.example.com/x", "operator": "Exists", "effect": "NoExecute"}]`
	all      = `, "allocationMode": "All"`
)

func judged(t *testing.T, o audit.Options, objects ...audit.Object) (audit.Result, []string) {
	t.Helper()
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	o.Policies, o.Now = set, now
	auditor, err := audit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var found []audit.Finding
	for _, one := range objects {
		findings, err := auditor.Check(one)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, findings...)
	}
	report := audit.Make(map[string]int{"ResourceClaim": len(objects)}, found)
	var lines []string
	for _, f := range report.Findings {
		lines = append(lines, fmt.Sprintf("%s %s %s/%s", f.Code, f.Today, f.Namespace, f.Name))
	}
	return report, lines
}

// TestDuplicateParameters: API servers store what is in opaque parameters as it is, so that a tenant
// may store a duplicate name. Such a claim is checked as any other one.
func TestDuplicateParameters(t *testing.T) {
	stored := object("ResourceClaim", `{"metadata": {"namespace": "team-a", "name": "twice"}, "spec": {"devices": {
		"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "tolerations": [{"operator": "Exists"}]}}],
		"config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1, "a": 2}}}]}}}`)
	if _, lines := judged(t, audit.Options{Raise: []string{"DRA-TOL-001"}}, stored); len(lines) != 1 || lines[0] != "DRA-TOL-001 deny team-a/twice" {
		t.Errorf("found %q, want the toleration of team-a/twice", lines)
	}
}

// TestRaise: what warns today is refused, what is off is not, and what --raise names is
// although it is off.
func TestRaise(t *testing.T) {
	objects := []audit.Object{claim("team-a", "wild", "", wildcard), claim("team-b", "all", "", all), claim("team-b", "ever", "", forever), claim("team-b", "good", "", "")}
	loose := v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{
		Modes:      map[string]v1alpha1.PolicyMode{"DRA-CLAIM-002": "audit", "DRA-TOL-004": "off"},
		Namespaces: []v1alpha1.PolicyNamespaces{{Names: []string{"team-a"}, Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-001": "warn"}}},
	}}
	for name, tt := range map[string]struct {
		options audit.Options
		want    []string
	}{
		"own modes": {audit.Options{}, []string{"DRA-CLAIM-002 warn team-b/all", "DRA-TOL-001 deny team-a/wild", "DRA-TOL-002 warn team-a/wild", "DRA-TOL-004 warn team-a/wild", "DRA-TOL-004 warn team-b/ever"}},
		"modes of a site": {audit.Options{Configuration: loose},
			[]string{"DRA-CLAIM-002 audit team-b/all", "DRA-TOL-001 warn team-a/wild", "DRA-TOL-002 warn team-a/wild"}},
		"one that is off": {audit.Options{Configuration: loose, Raise: []string{"DRA-TOL-004"}}, []string{"DRA-TOL-004 off team-a/wild", "DRA-TOL-004 off team-b/ever"}},
		"switched off":    {audit.Options{Configuration: v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Disabled: true}}, Raise: []string{"DRA-TOL-001"}}, []string{"DRA-TOL-001 off team-a/wild"}},
		"a rule": {audit.Options{Configuration: v1alpha1.StewardConfiguration{Rules: map[string]v1alpha1.Rule{"request-tolerations-max": {Severity: "warning"}}}, Raise: []string{"request-tolerations-max"}},
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := judged(t, tt.options, objects...); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestRuleIsRaised from a warning.
func TestRuleIsRaised(t *testing.T) {
	many := claim("team-a", "many", "", `, "tolerations": [`+strings.TrimSuffix(strings.Repeat(`{"key": "a.example.com/x", "operator": "Exists", "effect": "NoSchedule"},`, 17), ",")+`]`)
	warns := v1alpha1.StewardConfiguration{Rules: map[string]v1alpha1.Rule{"request-tolerations-max": {Severity: "warning"}}}
	if _, got := judged(t, audit.Options{Configuration: warns, Raise: []string{"request-tolerations-max"}}, many); !slices.Equal(got, []string{"request-tolerations-max warn team-a/many"}) {
		t.Error(got)
	}
}

// TestDisabled: policies that are disabled replace no rule, so that the rules deny as in the webhook.
func TestDisabled(t *testing.T) {
	bare := claim("team-a", "bare", "", `, "tolerations": [{}]`)
	disabled := v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Disabled: true,
		Namespaces: []v1alpha1.PolicyNamespaces{{Names: []string{"team-a"}, Modes: map[string]v1alpha1.PolicyMode{"DRA-TOL-001": "deny"}}}}}
	for _, raise := range [][]string{nil, {"toleration-empty-key"}} {
		if _, got := judged(t, audit.Options{Configuration: disabled, Raise: raise}, bare); !slices.Equal(got, []string{"toleration-empty-key deny team-a/bare"}) {
			t.Errorf("raise %q: %q", raise, got)
		}
	}
}

// TestFilled: what the webhook fills in, and then admits, is not refused.
func TestFilled(t *testing.T) {
	caps := v1alpha1.StewardConfiguration{Defaults: v1alpha1.Defaults{Tolerations: &v1alpha1.Tolerations{Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(3600))}}}}}
	if _, got := judged(t, audit.Options{Configuration: caps}, claim("team-a", "ever", "", forever)); len(got) > 0 {
		t.Errorf("%q: the webhook sets tolerationSeconds", got)
	}
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	ladder, err := audit.NewLadder(audit.Options{Configuration: caps, Policies: set, Now: now}, []v1alpha1.Mode{v1alpha1.ModeDefault}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, outcomes, err := ladder.Check(claim("team-a", "ever", "", forever)); err != nil || len(outcomes[0].Refused) > 0 || len(outcomes[0].Defaulted) == 0 {
		t.Errorf("%+v %v: the webhook sets tolerationSeconds", outcomes, err)
	}
}

// TestTooLargeInObserve: what policies cannot check because it is too large is refused after the mode observe.
func TestTooLargeInObserve(t *testing.T) {
	var requests []string
	for n := range 32 {
		var tolerations []string
		for k := range 16 {
			tolerations = append(tolerations, fmt.Sprintf(`{"key": "example.com/t%d", "operator": "Exists", "effect": "NoSchedule"}`, 16*n+k))
		}
		requests = append(requests, fmt.Sprintf(`{"name": "r%d", "exactly": {"deviceClassName": "gpu.example.com", "tolerations": [%s]}}`, n, strings.Join(tolerations, ",")))
	}
	large := object("ResourceClaim", `{"metadata": {"namespace": "team-a", "name": "large"}, "spec": {"devices": {"requests": [`+strings.Join(requests, ",")+`]}}}`)
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeObserve, v1alpha1.ModeDefault} {
		if _, got := judged(t, audit.Options{Configuration: v1alpha1.StewardConfiguration{Mode: mode}}, large); len(got) == 0 || !strings.HasPrefix(got[0], "policy-error") {
			t.Errorf("mode %s: %q", mode, got)
		}
	}
}

func TestUnknownName(t *testing.T) {
	_, err := audit.New(audit.Options{Raise: []string{"DRA-TOL-999"}})
	if err == nil || !strings.Contains(err.Error(), `neither a policy nor a rule "DRA-TOL-999"`) {
		t.Error(err)
	}
}

// TestGenerated: a claim of a template is marked, not left out, for owners can be forged.
func TestGenerated(t *testing.T) {
	made := claim("team-a", "made", `, "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}, "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]`, wildcard)
	report, _ := judged(t, audit.Options{Raise: []string{"DRA-TOL-001"}}, made)
	if len(report.Findings) != 1 || !report.Findings[0].Generated {
		t.Errorf("%+v", report)
	}
}

// TestTimes: a rule whose taint is as old as it is by itself is right, whenever it is
// audited; one that was backdated is not.
func TestTimes(t *testing.T) {
	rule := func(name, added string) audit.Object {
		return object("DeviceTaintRule", fmt.Sprintf(`{"metadata": {"name": %q, "creationTimestamp": "2026-01-01T00:00:00Z"},
			"spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "example.com/x", "effect": "NoSchedule", "timeAdded": %q}}}`, name, added))
	}
	_, got := judged(t, audit.Options{Raise: []string{"DRA-RULE-005"}}, rule("at-once", "2026-01-01T00:00:00Z"), rule("changed", "2026-02-01T00:00:00Z"),
		rule("backdated", "2020-01-01T00:00:00Z"), rule("ahead", "2030-01-01T00:00:00Z"))
	if want := []string{"DRA-RULE-005 deny /ahead", "DRA-RULE-005 deny /backdated"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}

// TestOrder: a report does not depend on the order in which objects are read.
func TestOrder(t *testing.T) {
	objects := []audit.Object{claim("b", "x", "", wildcard), claim("a", "y", "", wildcard), claim("a", "x", "", forever), claim("b", "z", "", all)}
	var texts []string
	for range 2 {
		report, _ := judged(t, audit.Options{}, objects...)
		var text bytes.Buffer
		for _, output := range audit.Outputs() {
			if err := report.Write(output, &text, lint.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		texts = append(texts, text.String())
		slices.Reverse(objects)
	}
	if texts[0] != texts[1] {
		t.Errorf("%s\n%s", texts[0], texts[1])
	}
	want := "DRA-TOL-001 (today deny): would refuse 2 objects (a 1, b 1)\n  ResourceClaim a/y: spec.devices.requests[gpu].exactly.tolerations[0].key: a toleration with an empty key tolerates every taint; name"
	if !strings.Contains(texts[0], want) || !strings.Contains(texts[0], "4 objects checked, 4 would be refused\n") {
		t.Error(texts[0])
	}
}

// TestPlacesInSARIF are those in the API.
func TestPlacesInSARIF(t *testing.T) {
	report := audit.Make(nil, []audit.Finding{{Kind: "DeviceClass", Name: "gpu", Code: "a"}, {Kind: "ResourceClaim", Namespace: "team-a", Name: "wild", Code: "a"}})
	var text bytes.Buffer
	if err := report.Write("sarif", &text, lint.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"deviceclasses/gpu"`, `"namespaces/team-a/resourceclaims/wild"`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s is not in %s", want, &text)
		}
	}
}

// TestPlaces: findings about an object are in the order of its fields, and the number of those
// that are not listed is the last.
func TestPlaces(t *testing.T) {
	var found []audit.Finding
	for _, path := range []string{"", "spec.items[10]", "spec.items[2]"} {
		found = append(found, audit.Finding{Code: "SITE-1", Kind: "ResourceClaim", Name: "x", Path: path})
	}
	var paths []string
	for _, f := range audit.Make(nil, found).Findings {
		paths = append(paths, f.Path)
	}
	if !slices.Equal(paths, []string{"spec.items[2]", "spec.items[10]", ""}) {
		t.Errorf("%q", paths)
	}
}
