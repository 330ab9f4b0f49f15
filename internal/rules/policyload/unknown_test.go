package policyload

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestCheck: what no policy has is an error with its place and the nearest name. ConfigMaps
// may add the site's own codes later; those of the library are always known.
func TestCheck(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	modes := func(code string) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Modes: map[string]v1alpha1.PolicyMode{code: "deny"}}}
	}
	parameters := func(code, values string) v1alpha1.StewardConfiguration {
		return v1alpha1.StewardConfiguration{Policies: v1alpha1.Policies{Namespaces: []v1alpha1.PolicyNamespaces{
			{Names: []string{"a"}, Parameters: map[string]json.RawMessage{code: json.RawMessage(values)}}}}}
	}
	exempts := v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{{Rules: []string{"*"}}, {Rules: []string{"claim-devices-max", "DRA-TOL-01"}}}}
	for name, tt := range map[string]struct {
		configuration v1alpha1.StewardConfiguration
		later, all    string
	}{
		"nothing":           {},
		"known":             {configuration: modes("DRA-TOL-001")},
		"misspelt code":     {modes("DRA-TOL-01"), `policies.modes[DRA-TOL-01]: Invalid value: "DRA-TOL-01": there is no policy with this code; did you mean "DRA-TOL-001"?`, "DRA-TOL-01"},
		"a code of a site":  {modes("SITE-001"), "", `policies.modes[SITE-001]`},
		"known parameter":   {configuration: parameters("DRA-TOL-003", `{"allowed": []}`)},
		"unknown parameter": {parameters("DRA-TOL-003", `{"alowed": []}`), `policies.namespaces[0].parameters[DRA-TOL-003].alowed: Invalid value: "alowed": policy DRA-TOL-003 has no parameter of this name; did you mean "allowed"?`, "alowed"},
		"no name near":      {parameters("DRA-TOL-003", `{"x": []}`), "it has allowed", "it has allowed"},
		"exemption":         {exempts, `exemptions[1].rules[1]: Invalid value: "DRA-TOL-01"`, "exemptions[1].rules[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			for want, later := range map[string]bool{tt.later: true, tt.all: false} {
				err := Check(set, tt.configuration, later)
				if want == "" {
					if err != nil && tt.later == tt.all {
						t.Errorf("got %v", err)
					}
				} else if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("own codes later %v: got %v, want %q", later, err, want)
				}
			}
			if _, err := NewEngine(set, tt.configuration, 0); (err != nil) != (tt.later != "") {
				t.Errorf("the engine: got %v, want %q", err, tt.later)
			}
		})
	}
}
