package v1alpha1_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGenerated generates deep copies and CRDs anew and compares.
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
