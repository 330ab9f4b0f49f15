package policy_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

const header = `# METADATA
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

`

// source is a source of one policy with a rule and perhaps tests.
func source(text string, tests ...string) policy.Collection {
	files := fstest.MapFS{"a/policy.rego": {Data: []byte(text)}}
	for _, test := range tests {
		files["a/policy_test.rego"] = &fstest.MapFile{Data: []byte(test)}
	}
	return policy.Collection{Name: "test", Files: files}
}

// TestCompileRefuses: each mistake is refused with its place.
func TestCompileRefuses(t *testing.T) {
	const rule = "deny contains v if {\n\tsome t in input.tolerations\n\tv := {\"paths\": t.paths, \"message\": t.key}\n}\n"
	for name, tt := range map[string]struct {
		source policy.Collection
		says   []string
	}{
		"syntax":                       {source(header + "deny contains"), []string{"test/a/policy.rego:13", "rego_parse_error"}},
		"misspelled field":             {source(header + strings.Replace(rule, "t.key", "t.kee", 1)), []string{"test/a/policy.rego:15", "kee"}},
		"unknown parameter":            {source(strings.Replace(header, "package", "#   parameters: {type: object, additionalProperties: false, properties: {x: {type: string, default: a, description: A.}}}\npackage", 1) + "deny contains input.parameters[\"TEST-001\"].y\n"), []string{"test/a/policy.rego:14", "y"}},
		"network":                      {source(header + "deny contains http.send({})\n"), []string{"undefined function http.send"}},
		"clock":                        {source(header + "deny contains time.now_ns()\n"), []string{"undefined function time.now_ns"}},
		"chance":                       {source(header + "deny contains rand.intn(\"a\", 3)\n"), []string{"undefined function rand.intn"}},
		"environment":                  {source(header + "deny contains opa.runtime()\n"), []string{"undefined function opa.runtime"}},
		"unused variable":              {source(header + "deny contains 1 if { x := 1 }\n"), []string{"x", "unused"}},
		"no rule":                      {source(header + "denied := 1\n"), []string{"no rule"}},
		"another form":                 {source(header + "deny := {}\n"), []string{"test/a/policy.rego:13", "must be a set"}},
		"no metadata":                  {source("package dra.custom.test\n" + rule), []string{"test/a/policy.rego:1", "METADATA"}},
		"unknown kind":                 {source(strings.Replace(header, "[ResourceClaim]", "[Pod]", 1) + rule), []string{"custom.kinds", "Pod"}},
		"misspelled field of METADATA": {source(strings.Replace(header, "severity", "severty", 1) + rule), []string{"severty"}},
		"parameter without default":    {source(strings.Replace(header, "package", "#   parameters: {type: object, properties: {x: {type: string}}}\npackage", 1) + rule), []string{"properties.x", "default"}},
		"default of another type":      {source(strings.Replace(header, "package", "#   parameters: {type: object, properties: {x: {type: string, default: 1}}}\npackage", 1) + rule), []string{"got number, want string"}},
		"schema with a large pattern":  {source(strings.Replace(header, "package", "#   parameters: {type: object, properties: {x: {type: string, default: a, pattern: '(abc){1000}'}}}\npackage", 1) + rule), []string{"is too large"}},
		"schema that reads files":      {source(strings.Replace(header, "package", "#   parameters: {type: object, $ref: 'file:///etc/passwd'}\npackage", 1) + rule), []string{"cannot refer to another file"}},
		"failing test":                 {source(header+rule, "package dra.custom.test_test\ntest_a if { 1 == 2 }\n"), []string{"test/a/policy_test.rego:2", "dra.custom.test_test.test_a", "fails"}},
		"skipped test":                 {source(header+rule, "package dra.custom.test_test\ntodo_test_a if { 1 == 1 }\n"), []string{"is skipped"}},
		"error in a test":              {source(header+rule, "package dra.custom.test_test\ntest_a if { to_number(\"a\") == 2 }\n"), []string{"to_number"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Compile(t.Context(), tt.source)
			if err == nil {
				t.Fatal("compiles")
			}
			for _, word := range tt.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error lacks %q: %v", word, err)
				}
			}
		})
	}
}

// TestCompileReplacesByCode: a site's policy takes the place of the library's.
func TestCompileReplacesByCode(t *testing.T) {
	replacement := strings.Replace(header, "TEST-001", "DRA-TOL-001", 1) + "deny contains {\"paths\": [], \"message\": \"other\"}\n"
	set, err := policy.Compile(t.Context(), policy.Library(), source(replacement))
	if err != nil {
		t.Fatal(err)
	}
	got, found := set.Policy("DRA-TOL-001")
	if !found || got.Package != "dra.custom.test" {
		t.Errorf("%+v", got)
	}
	library, err := policy.Compile(t.Context(), policy.Library())
	if err != nil || library.Revision() == set.Revision() {
		t.Errorf("revision %s of both, %v", set.Revision(), err)
	}
}
