package policyload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestAddSchema: what is no schema is refused with its place, and changes nothing.
func TestAddSchema(t *testing.T) {
	const good = `{"x-dra-driver": "gpu.example.com", "type": "object", "properties": {"mode": {"enum": ["a"]}}}`
	for name, tt := range map[string]struct{ name, text, want string }{
		"schema":        {"a.schema.json", good, ""},
		"another file":  {"a.json", good, "f: a key must be <name>.rego for a policy"},
		"no JSON":       {"a.schema.json", "{\n  \"type\": }", "f:2:11: no JSON: invalid character"},
		"unfinished":    {"a.schema.json", "{\n", "f:2:1: no JSON: unexpected end"},
		"no driver":     {"a.schema.json", `{"type": "object"}`, "f: no schema of parameters: x-dra-driver is missing"},
		"a list":        {"a.schema.json", `[]`, "f: no schema of parameters: a schema is a JSON object"},
		"no such type":  {"a.schema.json", strings.Replace(good, `"object"`, `"objekt"`, 1), "f: no schema of parameters: "},
		"a reference":   {"a.schema.json", strings.Replace(good, `"type"`, `"$ref": "file:///etc/passwd", "type"`, 1), "f: no schema of parameters: "},
		"repeated keys": {"a.schema.json", strings.Replace(good, `"type"`, `"type": "object", "type"`, 1), "f: no schema of parameters: duplicate key type"},
	} {
		var files Files
		err := files.addSchema("f", tt.name, tt.text)
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) || (len(files.Schemas) == 1) != (tt.want == "") {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, schemas := range [][]string{nil, {good}, {good, good}, {strings.Replace(good, `"a"`, `"b"`, 1)}} {
		files := Files{Set: set}
		for i, text := range schemas {
			if err := files.addSchema("f", fmt.Sprint(i, schemaSuffix), text); err != nil {
				t.Fatal(err)
			}
		}
		seen[files.revision()] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d revisions of four", len(seen))
	}
}
