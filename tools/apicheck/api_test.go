package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// maxNames is the maximum number of exported names: package-level ones and methods. Raise it
// only for a name that an importer needs.
const maxNames = 632

var packages = sync.OnceValues(func() ([]api, error) { return load(root) })

func exported(t *testing.T) []api {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestGolden compares the exported API with the golden files.
func TestGolden(t *testing.T) {
	const remedy = "if the change is intended, run `go generate ./tools/apicheck` and have the difference reviewed"
	var want []string
	for _, p := range exported(t) {
		name := filepath.Join(root, golden, filepath.FromSlash(p.path)+".txt")
		want = append(want, name)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%v; %s", err, remedy)
			continue
		}
		if added, removed := difference(strings.Split(strings.TrimSpace(string(text)), "\n"), p.lines); len(added)+len(removed) > 0 {
			t.Errorf("%s: the exported API has changed; %s\n%s", p.path, remedy, strings.Join(append(removed, added...), "\n"))
		}
	}
	err := filepath.WalkDir(filepath.Join(root, golden), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !slices.Contains(want, name) {
			t.Errorf("%s: the package exports nothing or does not exist; %s", name, remedy)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// difference returns the lines of after that before lacks, and the reverse.
func difference(before, after []string) (added, removed []string) {
	for _, line := range after {
		if !slices.Contains(before, line) {
			added = append(added, "+ "+line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			removed = append(removed, "- "+line)
		}
	}
	return added, removed
}

// TestNames bounds the number of exported names.
func TestNames(t *testing.T) {
	total := 0
	for _, p := range exported(t) {
		total += p.names
	}
	t.Logf("%d exported names", total)
	if total > maxNames {
		t.Errorf("%d exported names, at most %d: unexport what importers do not need; `go run ./tools/apicheck -count .` counts by package", total, maxNames)
	}
}

// TestRun counts names by package, and refuses wrong arguments.
func TestRun(t *testing.T) {
	if err := run(nil, false, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "the root folder") {
		t.Errorf("without an argument: %v", err)
	}
	var out bytes.Buffer
	if err := run([]string{root}, true, &out); err != nil || !strings.Contains(out.String(), "pkg/validate\n") || !strings.HasSuffix(out.String(), " total\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestDifference shows what a change looks like.
func TestDifference(t *testing.T) {
	added, removed := difference([]string{"func A()", "func B()"}, []string{"func A()", "func C()"})
	if got := strings.Join(append(removed, added...), " "); got != "- func B() + func C()" {
		t.Error(got)
	}
}
