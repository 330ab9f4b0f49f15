package review_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// labelled are the labels of the namespace b; nil is not known.
type labelled map[string]string

func (l labelled) NamespaceLabels(name string) map[string]string {
	if name != "b" {
		return nil
	}
	return l
}
func (labelled) TaintKey(string) (known, sure bool) { return false, false }

var protecting = v1alpha1.ProtectedLabels{Keys: []string{"tier"}}

// TestSelectedByLabel: a namespace with a protected label is exempt or has other
// parameters; one whose labels are not known is not, whatever the selector says.
func TestSelectedByLabel(t *testing.T) {
	const code = "DRA-TOL-001"
	gold := &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	notSilver := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"silver"}}}}
	exempt := func(s *metav1.LabelSelector, names ...string) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{ProtectedLabels: protecting, Exemptions: []v1alpha1.Exemption{
			{Rules: []string{code}, NamespaceSelector: s, Namespaces: names, Reason: "trusted", Expires: metav1.NewTime(now.Add(time.Hour))}}}
	}
	override := func(items ...v1alpha1.PolicyNamespaces) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{ProtectedLabels: protecting, Policies: v1alpha1.Policies{Namespaces: items}}
	}
	allow := v1alpha1.PolicyNamespaces{NamespaceSelector: gold, Parameters: map[string]json.RawMessage{code: json.RawMessage(`{"allowed": true}`)}}
	warn := v1alpha1.PolicyNamespaces{Names: []string{"b"}, Modes: map[string]v1alpha1.PolicyMode{code: "warn"}}
	off := v1alpha1.PolicyNamespaces{NamespaceSelector: gold, Modes: map[string]v1alpha1.PolicyMode{code: "off"}}
	deny := v1alpha1.PolicyNamespaces{NamespaceSelector: gold, Modes: map[string]v1alpha1.PolicyMode{code: "deny"}}
	for name, tt := range map[string]struct {
		site   v1alpha1.StewardConfiguration
		labels labelled
		want   string
	}{
		"exempt":                        {exempt(gold), labelled{"tier": "gold"}, "exempted"},
		"another value":                 {exempt(gold), labelled{"tier": "silver"}, "error"},
		"not labelled":                  {exempt(gold), labelled{}, "error"},
		"not labelled, but not silver":  {exempt(notSilver), labelled{}, "exempted"},
		"labels not known":              {exempt(notSilver), nil, "error"},
		"named":                         {exempt(gold, "b"), labelled{}, "exempted"},
		"parameter":                     {override(allow), labelled{"tier": "gold"}, ""},
		"parameter of others":           {override(allow), labelled{"tier": "silver"}, "error"},
		"parameter, labels not known":   {override(allow), nil, "error"},
		"named here, selected later":    {override(warn, off), labelled{"tier": "gold"}, ""},
		"named here, not selected":      {override(warn, off), labelled{}, "warning"},
		"selected first, named later":   {override(deny, warn), labelled{"tier": "gold"}, "warning"},
		"off unless selected":           {override(v1alpha1.PolicyNamespaces{Names: []string{"b"}, Modes: map[string]v1alpha1.PolicyMode{code: "off"}}, deny), labelled{"tier": "gold"}, "error"},
		"selected, parameter and mode ": {override(warn, allow), labelled{"tier": "gold"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := withPolicies(t, tt.site)
			r.ClusterData = tt.labels
			req := request("v1", "ResourceClaim", "", tolerant, "")
			req.Namespace, req.User = "b", who("jane")
			for range 2 { // the second time it is remembered
				got := findings(t, r, req, code)
				if len(got) != len(strings.Fields(tt.want)) || len(got) > 0 && !strings.HasPrefix(got[0], tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// TestPatternsOfNamespaces: a pattern matches no namespace, so it is refused with its place.
func TestPatternsOfNamespaces(t *testing.T) {
	file, err := config.Parse("site.yaml", []byte(`apiVersion: dra-steward.io/v1alpha1
kind: StewardConfiguration
exemptions:
- {rules: [claim-empty], namespaces: [ml, "team-*"], reason: a, expires: 2099-01-01T00:00:00Z}
policies:
  namespaces:
  - {names: [Team-A], modes: {DRA-TOL-001: "off"}}
defaults:
  tolerations:
    rules:
    - {namespaces: [""], maxSeconds: 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = review.New(file.StewardConfiguration)
	for _, want := range []string{`site.yaml:4:43: exemptions[0].namespaces[1]: Invalid value: "team-*": no namespace has this name`,
		`site.yaml:7:14: policies.namespaces[0].names[0]: Invalid value: "Team-A"`, `site.yaml:11:21: defaults.tolerations.rules[0].namespaces[0]: Invalid value: ""`} {
		if got := fmt.Sprint(file.Locate(err)); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q", got, want)
		}
	}
}

// TestUnprotectedLabels: a selector that anybody could satisfy is refused.
func TestUnprotectedLabels(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	_, err := review.New(v1alpha1.StewardConfiguration{
		ProtectedLabels: v1alpha1.ProtectedLabels{Keys: []string{"tier", "kubernetes.io/metadata.name", "a b"}, Tenant: "other"},
		Exemptions:      []v1alpha1.Exemption{{Rules: []string{"*"}, NamespaceSelector: selector, Reason: "x", Expires: metav1.NewTime(now)}},
		Policies: v1alpha1.Policies{Namespaces: []v1alpha1.PolicyNamespaces{{NamespaceSelector: &metav1.LabelSelector{}},
			{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "Like"}}}}}},
	})
	for _, want := range []string{`protectedLabels.tenant: Invalid value: "other": must be one of`, `protectedLabels.keys[1]: Invalid value: "kubernetes.io/metadata.name"`, `protectedLabels.keys[2]: Invalid value: "a b"`,
		`exemptions[0].namespaceSelector: Invalid value: "team": the label is not protected`, "policies.namespaces[0].namespaceSelector: Required value", "policies.namespaces[1].namespaceSelector: Invalid value"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
