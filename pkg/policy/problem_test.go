package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestProblems: each mistake has its place, whatever found it.
func TestProblems(t *testing.T) {
	const rule = "deny contains v if {\n\tsome t in input.tolerations\n\tv := {\"paths\": t.paths, \"message\": t.key}\n}\n"
	for name, tt := range map[string]struct {
		source policy.Collection
		want   string
	}{
		"nothing":          {source(header + rule), ""},
		"syntax":           {source(header + "deny contains {"), "test/a/policy.rego:13:15: rego_parse_error: "},
		"misspelled field": {source(header + strings.Replace(rule, "t.key", "t.kee", 1)), "test/a/policy.rego:15:37: rego_type_error: undefined ref: "},
		"no metadata":      {source("package dra.custom.test\n" + rule), "test/a/policy.rego:1:1: package dra.custom.test has no METADATA"},
		"unknown kind":     {source(strings.Replace(header, "[ResourceClaim]", "[Pod]", 1) + rule), "test/a/policy.rego:1:1: METADATA of package dra.custom.test: custom.kinds"},
		"strongest":        {source(strings.Replace(header, "mode: deny", "mode: deny\n#   strongest: warn", 1) + rule), "test/a/policy.rego:1:1: METADATA of package dra.custom.test: custom.strongest"},
		"no mode":          {source(strings.Replace(header, "mode: deny", "mode: deny\n#   strongest: refuse", 1) + rule), "test/a/policy.rego:1:1: METADATA of package dra.custom.test: custom.strongest"},
		"no rule":          {source(header + "denied := 1\n"), "test/a/policy.rego:11:1: package dra.custom.test has no rule"},
		"another form":     {source(header + "deny := {}\n"), "test/a/policy.rego:13:1: deny must be a set"},
		"mixed":            {source(header + "deny contains {\"paths\": [], \"message\": \"x\"} if input.name in {\"a\", input.kind}\n"), "test/a/policy.rego:13:48: constants and other values"},
		"failing test":     {source(header+rule, "package dra.custom.test_test\ntest_a if { 1 == 2 }\n"), "test/a/policy_test.rego:2:1: dra.custom.test_test.test_a: fails"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Compile(t.Context(), tt.source)
			problems := policy.Problems(err)
			if (len(problems) == 0) != (tt.want == "") || len(problems) > 0 && !strings.HasPrefix(problems[0].String(), tt.want) {
				t.Errorf("got %v of %v, want %q", problems, err, tt.want)
			}
		})
	}
	if got := policy.Problems(fmt.Errorf("no place")); len(got) != 1 || got[0].String() != "no place" {
		t.Errorf("%v", got)
	}
}
