package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// document is the output of govulncheck in the form of OpenVEX, shortened.
const document = `{"@context": "https://openvex.dev/ns/v0.2.0", "@id": "govulncheck/vex:1", "statements": [
  {"vulnerability": {"name": "GO-2026-9999"}, "products": [{"@id": "Unknown Product"}], "status": "not_affected"}]}`

// TestVEX: the OpenVEX document of each program is about the module that its bill of materials names.
func TestVEX(t *testing.T) {
	t.Setenv("VERSION", "v0.2.0")
	dir := t.TempDir()
	input := filepath.Join(dir, "govulncheck.json")
	if err := os.WriteFile(input, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	for program, module := range map[string]string{"dra-steward": "..", "dra-steward-scheduler": "../scheduler", "another": ""} {
		in, err := os.Open(input)
		if err != nil {
			t.Fatal(err)
		}
		os.Stdin = in
		file := filepath.Join(dir, program)
		err = run(t.Context(), []string{"vex", "-program", program, file})
		in.Close()
		if module == "" {
			if err == nil || !strings.Contains(err.Error(), `no program "another"`) {
				t.Errorf("%s: %v", program, err)
			}
			continue
		}
		text, readErr := os.ReadFile(file)
		if err != nil || readErr != nil {
			t.Fatal(program, err, readErr)
		}
		path := modulePath(t, module)
		if product := `"@id": "pkg:golang/` + path + `@v0.2.0"`; !strings.Contains(string(text), product) {
			t.Errorf("%s: no %s in %s", program, product, text)
		}
	}
}

// TestVEXInWorkflow: a release asks govulncheck about both modules, and before it logs in to a registry. After that,
// it runs no program of a module that no go.sum of this repository has.
func TestVEXInWorkflow(t *testing.T) {
	text, err := os.ReadFile("../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "- name: Log in to the registry")
	if !found {
		t.Fatal("release.yaml has no login")
	}
	for _, want := range []string{"for of in dra-steward:. dra-steward-scheduler:scheduler; do", `bin/tools/govulncheck -C "$module"`, `vex -program "$program"`} {
		if !strings.Contains(before, want) {
			t.Errorf("release.yaml lacks %s before the login", want)
		}
	}
	if at := regexp.MustCompile(`go (run|install|build)[^\n]*@`).FindString(string(text)); at != "" || strings.Contains(after, "go install") || strings.Contains(after, "govulncheck") {
		t.Errorf("release.yaml runs %q or govulncheck after the login", at)
	}
}

func modulePath(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if path, found := strings.CutPrefix(line, "module "); found {
			return strings.TrimSpace(path)
		}
	}
	t.Fatalf("%s/go.mod names no module", dir)
	return ""
}
