package krew_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/tools/krew"
)

var sum = strings.Repeat("0123456789abcdef", 4)

func manifest(t *testing.T) string {
	t.Helper()
	text, err := krew.Manifest(krew.Release{Version: "v0.1.0", Archives: []krew.Archive{
		{OS: "linux", Arch: "amd64", SHA256: sum}, {OS: "darwin", Arch: "arm64", SHA256: sum}, {OS: "windows", Arch: "amd64", SHA256: sum},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// validate holds a manifest against the schema.
func validate(t *testing.T, manifest string) error {
	t.Helper()
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err = yaml.YAMLToJSONStrict([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	object, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(object)
}

// TestManifest: the filled-in manifest fits the schema, names an archive of the release for
// each platform, and the program as kubectl looks for it.
func TestManifest(t *testing.T) {
	text := manifest(t)
	if err := validate(t, text); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	for _, line := range []string{
		"  version: v0.1.0\n",
		"      uri: https://github.com/dra-steward/dra-steward/releases/download/v0.1.0/kubectl-dra_steward_darwin_arm64.tar.gz\n      sha256: " + sum + "\n      bin: kubectl-dra_steward\n",
		"_windows_amd64.tar.gz\n      sha256: " + sum + "\n      bin: kubectl-dra_steward.exe\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// TestSchema: the schema refuses what krew refuses, and what a release has not filled in.
func TestSchema(t *testing.T) {
	for name, change := range map[string][2]string{
		"no version":             {"version: v0.1.0", "version: ''"},
		"version without its v":  {"version: v0.1.0", "version: 0.1.0"},
		"no sum":                 {"sha256: " + sum, "sha256: ''"},
		"short sum":              {"sha256: " + sum, "sha256: " + sum[1:]},
		"template not filled in": {"kubectl-dra_steward_linux_amd64.tar.gz", "{{ .Name }}"},
		"name with a hyphen":     {"bin: kubectl-dra_steward\n", "bin: kubectl-dra-steward\n"},
		"Windows without .exe":   {"bin: kubectl-dra_steward.exe", "bin: kubectl-dra_steward"},
		"another plugin":         {"name: dra-steward", "name: steward"},
		"unknown system":         {"os: darwin", "os: plan9"},
		"no architecture":        {"          arch: arm64\n", ""},
		"unknown field":          {"spec:\n", "spec:\n  license: Apache-2.0\n"},
		"two lines":              {"shortDescription: ", "shortDescription: |\n    A\n    "},
	} {
		text := manifest(t)
		changed := strings.Replace(text, change[0], change[1], 1)
		if changed == text {
			t.Fatalf("%s: the manifest has no %q", name, change[0])
		}
		if validate(t, changed) == nil {
			t.Errorf("%s: the schema allows\n%s", name, changed)
		}
	}
}
