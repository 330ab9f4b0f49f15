package policy

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
)

// TestEveryBuiltinIsReviewed: one that an update of OPA adds needs a line in the table,
// and one that it removes has none.
func TestEveryBuiltinIsReviewed(t *testing.T) {
	known := map[string]bool{}
	for _, builtin := range ast.CapabilitiesForThisVersion().Builtins {
		known[builtin.Name] = builtin.Nondeterministic
	}
	listed := map[string]bool{}
	for _, group := range reviewedBuiltins() {
		for _, name := range group.names {
			nondeterministic, is := known[name]
			if !is || listed[name] || group.reason == "" {
				t.Errorf("%s: listed twice, without a reason, or not in OPA", name)
			}
			if group.allowed && nondeterministic {
				t.Errorf("%s is allowed, and OPA says that its result differs from call to call", name)
			}
			listed[name] = true
		}
	}
	for name := range known {
		if !listed[name] {
			t.Errorf("%s is not reviewed", name)
		}
	}
}

// TestUnreviewedIsRefused: what is not in the table does not compile.
func TestUnreviewedIsRefused(t *testing.T) {
	allowed := map[string]bool{}
	for _, builtin := range capabilities().Builtins {
		allowed[builtin.Name] = true
	}
	for _, name := range []string{"bits.lsh", "numbers.range", "strings.render_template", "net.cidr_expand", "http.send", "some.new_function"} {
		if allowed[name] {
			t.Errorf("%s is allowed", name)
		}
	}
	if !allowed["count"] || !allowed["sprintf"] {
		t.Error("count or sprintf is refused")
	}
}

// TestFormats: no call of sprintf allocates by a number.
func TestFormats(t *testing.T) {
	for expr, want := range map[string]string{
		`sprintf("%d of %5.2f%% %-99s", [1, 2, "x"])`: "",
		`sprintf("100%% of 1000000 %s", ["x"])`:       "",
		`sprintf("%999999999d", [1])`:                 "at most 99",
		`sprintf("%.999999999f", [1])`:                "at most 99",
		`sprintf("%+0100d", [1])`:                     "at most 99",
		`sprintf("%*d", [999999999, 1])`:              "not *",
		`sprintf("%[1]*d", [999999999, 1])`:           "not *",
		`sprintf("%99999999999999999999d", [1])`:      "at most 99",
		`sprintf(input.kind, [1])`:                    "must be a constant",
		`sprintf(concat("", ["%9999", "d"]), [1])`:    "must be a constant",
		`sprintf($"%{input.kind}d", [1])`:             "must be a constant",
		`[sprintf(x, [1]) | some x in ["%9999d"]]`:    "must be a constant",
		`pad("%999999999d", [1]) with pad as sprintf`: "it is not a value",
	} {
		files := fstest.MapFS{"p.rego": {Data: []byte(`# METADATA
# title: Test
# description: Test.
# custom:
#   code: TEST-001
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
package dra.custom.test

pad(_, _) := "x"

deny contains {"paths": [], "message": "x"} if {
	x := ` + expr + `
	x != pad("", [])
}
`)}}
		_, err := Parse(t.Context(), Collection{Name: "test", Files: files})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}
