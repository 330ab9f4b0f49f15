package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/tools/build"
)

// TestWrite: each command has a page with the version and the date of the commit, and two runs
// give the same files. A shell can read what completes commands.
func TestWrite(t *testing.T) {
	stamp := build.Stamp{Version: "v0.1.0", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		if err := write(dir, stamp); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(a, "*/*"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("files %v, %v", pages, err)
	}
	for _, name := range pages {
		relative, err := filepath.Rel(a, name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := os.ReadFile(filepath.Join(b, relative))
		if err != nil || string(again) != string(text) {
			t.Errorf("%s: two runs differ: %v", relative, err)
		}
		if strings.HasSuffix(name, ".1") && (!strings.Contains(string(text), `"1" "Jan 2026" "dra-steward 0.1.0"`) || !strings.Contains(string(text), ".SH SYNOPSIS")) {
			t.Errorf("%s:\n%.400s", relative, text)
		}
	}
	for _, name := range []string{"man/dra-steward.1", "man/dra-steward-lint.1", "man/dra-steward-drain.1", "completions/_dra-steward", "completions/dra-steward.fish", "completions/dra-steward.ps1"} {
		if _, err := os.Stat(filepath.Join(a, name)); err != nil {
			t.Error(err)
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		if out, err := exec.CommandContext(t.Context(), bash, "-n", filepath.Join(a, "completions/dra-steward.bash")).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
