package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestMembership: collections behind "in" that OPA gets wrong do not load; all others do.
func TestMembership(t *testing.T) {
	for expression, refused := range map[string]bool{
		`input.name in {"x", input.namespace}`:                       true,
		`input.name in ["x", input.namespace]`:                       true,
		`not input.name in {"x", input.namespace}`:                   true,
		`a := [1 | input.name in {"x", input.namespace}]; a == []`:   true,
		`name := input.name; name in {"x", upper(input.namespace)}`:  true,
		`input.name in {"x", "y"}`:                                   false,
		`input.name in {input.namespace}`:                            false,
		`input.name in input.user.groups`:                            false,
		`all := {"x", input.namespace}; input.name in all`:           false,
		`some name in {"x", input.namespace}; name == input.name`:    false,
		`input.name in {name | some name in ["x", input.namespace]}`: false,
	} {
		_, err := policy.Parse(t.Context(), source(header+"deny contains {\"paths\": [], \"message\": \"a\"} if { "+expression+" }\n"))
		if refused != (err != nil) || err != nil && !strings.Contains(err.Error(), "test/a/policy.rego:13: constants and other values in one collection") {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// TestMembershipFault: the fault is still there. When this fails, OPA has mended it, and
// checkMembership has no reason any more.
func TestMembershipFault(t *testing.T) {
	module := fmt.Sprintf("package a\nr if { %s }", `input.a in {"x", input.b}`)
	results, err := rego.New(rego.Query("data.a.r"), rego.Module("a.rego", module), rego.Input(map[string]any{"a": "y", "b": "y"})).Eval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 0 {
		t.Errorf("OPA finds y in {\"x\", \"y\"}: remove checkMembership and what docs/policy-authoring.md says about it")
	}
}
