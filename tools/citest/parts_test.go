package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestParts: a run goes on with the parts that have not passed at the commit.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	file, ran := filepath.Join(dir, "cache", "test-long.json"), filepath.Join(dir, "ran")
	part := func(name string) step {
		return step{name: name, dir: ".", args: []string{"sh", "-c", "echo " + name + " >>" + ran + "; test -e " + filepath.Join(dir, name)}}
	}
	parts := []step{part("first"), part("second")}
	run := func(commit, only string) (failed bool, printed string) {
		t.Helper()
		k, err := readKept(file, commit)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		failed, err = runParts(t.Context(), parts, only, k, nil, &out, func() *Results { return &Results{} })
		if err != nil {
			t.Fatal(err)
		}
		return failed, out.String()
	}
	succeed := func(name string) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	succeed("first")
	if failed, out := run("a", ""); !failed || !strings.Contains(out, "| second | 0 | ") || !strings.Contains(out, "| failed |") {
		t.Errorf("with a part that fails: %v\n%s", failed, out)
	}
	succeed("second")
	if failed, out := run("a", ""); failed || !strings.Contains(out, "== first: has passed at this commit") {
		t.Errorf("the second run: %v\n%s", failed, out)
	}
	if failed, out := run("a", "^fir"); failed || !strings.Contains(out, "== first: sh") {
		t.Errorf("a part that is asked for: %v\n%s", failed, out)
	}
	if failed, out := run("b", "^second$"); failed || !strings.Contains(out, "| first | | | not run |") {
		t.Errorf("another commit: %v\n%s", failed, out)
	}
	got, err := os.ReadFile(ran)
	if want := "first\nsecond\nsecond\nfirst\nsecond\n"; err != nil || string(got) != want {
		t.Errorf("%v, ran %q, want %q", err, got, want)
	}
}

// TestPartWithoutTests: a part that skips all of its tests, or has none, has not passed.
func TestPartWithoutTests(t *testing.T) {
	const skipped, passed = `{"Action":"skip","Package":"p","Test":"TestA"}`, `{"Action":"pass","Package":"p","Test":"TestB"}`
	for printed, want := range map[string]string{
		skipped:                 "part: none of its tests passed, 1 were skipped",
		"":                      "part: none of its tests passed, 0 were skipped",
		skipped + "\n" + passed: "",
	} {
		parts := []step{{name: "part", dir: ".", args: []string{"printf", "%s\n", printed, "-json"}}}
		k, err := readKept("", "")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		failed, err := runParts(t.Context(), parts, "", k, nil, &out, func() *Results { return &Results{} })
		if err != nil || failed != (want != "") || k.Parts["part"].Passed == failed || !strings.Contains(out.String(), want) {
			t.Errorf("%q: failed is %v, %v, kept %+v, want %q in:\n%s", printed, failed, err, k.Parts, want, out.String())
		}
	}
}

// TestWriteParts: each name, as a regular expression, selects its part and no other.
func TestWriteParts(t *testing.T) {
	t.Chdir("../..")
	var out strings.Builder
	if err := writeParts(".", &out); err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal([]byte(out.String()), &names); err != nil || len(names) < 40 || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v in %q, want one line of JSON with all parts", err, out.String())
	}
	for _, name := range names {
		match := regexp.MustCompile("^" + name + "$")
		for _, other := range names {
			if match.MatchString(other) != (other == name) {
				t.Errorf("%q selects %q", name, other)
			}
		}
	}
}

func TestPartsRefuse(t *testing.T) {
	none := func() *Results { return &Results{} }
	parts := []step{{name: "only", dir: ".", args: []string{"true"}}}
	empty, err := readKept("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, only := range []string{"(", "other"} {
		if _, err := runParts(t.Context(), parts, only, empty, nil, new(strings.Builder), none); err == nil || !strings.Contains(err.Error(), "PART") {
			t.Errorf("PART=%s: %v", only, err)
		}
	}
	file := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readKept(file, "a"); err == nil || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("a broken file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if failed, err := runParts(ctx, parts, "", empty, nil, new(strings.Builder), none); !failed || err != nil || len(empty.Parts) > 0 {
		t.Errorf("interrupted: %v %v %v", failed, err, empty.Parts)
	}
}

// TestRecordedPartsAreKept: the tables that a run records are no reason to run its parts again.
func TestRecordedPartsAreKept(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", "package main")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "A tree"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	kept := func() bool {
		t.Helper()
		k, err := keptHere(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return k.file != ""
	}
	if !kept() {
		t.Error("a tree without changes keeps no results")
	}
	write("test/results/parts.tsv", "part")
	write("test/results/README.md", "| part |")
	if !kept() {
		t.Error("a tree with recorded results keeps no results")
	}
	write("main.go", "package other")
	if kept() {
		t.Error("a changed tree keeps results")
	}
}
