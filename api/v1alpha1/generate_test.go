package v1alpha1_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestReference generates the reference of the types and compares.
func TestReference(t *testing.T) {
	page := filepath.Join(t.TempDir(), "api.md")
	command := exec.Command("go", "tool", "-modfile=../../go.tools.mod", "crd-ref-docs", "--source-path=.", "--config=reference.yaml",
		"--renderer=markdown", "--output-path="+page, "--log-level=ERROR")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("crd-ref-docs: %v\n%s", err, out)
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/api.md is out of date, run \"make generate\"")
	}
}

// TestGenerated generates deep copies and CRDs again and compares.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	command := exec.Command("go", "tool", "-modfile=../../go.tools.mod", "controller-gen", "object", "crd", "paths=.",
		"output:object:dir="+dir, "output:crd:dir="+dir)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("controller-gen: %v\n%s", err, out)
	}
	written, err := filepath.Glob("../../charts/dra-steward/files/crds/*.yaml")
	if err != nil || len(written) == 0 {
		t.Fatalf("no CRDs in the chart: %v", err)
	}
	written = append(written, "zz_generated.deepcopy.go")
	for _, name := range written {
		want, err := os.ReadFile(filepath.Join(dir, filepath.Base(name)))
		if err != nil {
			t.Errorf("%s is not generated any more: %v", name, err)
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date, run \"make generate\"", name)
		}
	}
	if fresh, _ := filepath.Glob(filepath.Join(dir, "*")); len(fresh) != len(written) {
		t.Errorf("%d files are generated, %d are there: run \"make generate\"", len(fresh), len(written))
	}
}
