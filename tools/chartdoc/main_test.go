package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const chart = "../../charts/dra-steward"

// TestCurrent fails when the chart's schema or page does not follow its values.
func TestCurrent(t *testing.T) {
	files, err := generate(chart)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("charts/dra-steward/%s does not follow values.yaml: run make generate", name)
		}
	}
}

func TestGenerate(t *testing.T) {
	configuration := object{"properties": object{"limits": object{"type": "object", "properties": object{
		"taints": object{"type": "integer", "minimum": 0.0, "maximum": 16.0}}}}}
	for name, tt := range map[string]struct{ values, want, err string }{
		"a default implies the type": {"# How many.\nreplicas: 2\n", `"replicas": {
      "description": "How many.",
      "type": "integer"
    }`, ""},
		"the schema of the configuration": {"# Limits.\n# @schema {configuration: limits, each: {minimum: 1}}\nlimits:\n  # Taints.\n  taints: null\n", `"taints": {
          "description": "Taints.",
          "maximum": 16,
          "minimum": 1,
          "type": [
            "integer",
            "null"
          ]
        }`, ""},
		"a field without a value":     {"# Limits.\n# @schema {configuration: limits}\nlimits:\n  # Other.\n  other: 1\n", "", "limits.taints is a field of the configuration and no value"},
		"no field":                    {"# Limits.\n# @schema {configuration: limit}\nlimits: {}\n", "", "the configuration has no field limit, it has limits"},
		"no comment":                  {"replicas: 2\n", "", "values.yaml:1: replicas has no comment"},
		"a comment of something else": {"# About the file.\n\n# How many.\nreplicas: 2\n", `"description": "How many."`, ""},
		"a hint that is no YAML":      {"# How many.\n# @schema {minimum: [}\nreplicas: 2\n", "", "replicas: @schema"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := parse([]byte(tt.values))
			var got []byte
			if err == nil {
				got, err = schema(root, configuration)
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || !strings.Contains(string(got), tt.want) {
				t.Errorf("%v, got %s\nwant in it %s", err, got, tt.want)
			}
		})
	}
}

func TestReadme(t *testing.T) {
	root, err := parse([]byte("# A | b <c>.\n# @schema {enum: [\"x\", \"y\"]}\nmode: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readme("head\n"+begin+"\nold", root, s)
	if want := "| `mode` | x, y | `\"x\"` | A \\| b &lt;c>. |\n"; err != nil || !strings.HasPrefix(got, "head\n") || !strings.HasSuffix(got, want) {
		t.Errorf("got %v, %s", err, got)
	}
	if _, err := readme("head", root, s); err == nil {
		t.Error("a page without the mark must be an error")
	}
}
