package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPages: the tables of the pages are those of the recorded results.
func TestPages(t *testing.T) {
	t.Chdir("../..")
	pages, err := renderPages(".")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range pages {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is out of date, run \"go run ./tools/citest pages\" (%v)", file, err)
		}
	}
}

// TestFeatures: each feature names a package and tests that exist, and its how.
func TestFeatures(t *testing.T) {
	t.Chdir("../..")
	features, err := readFeatures("test/features.tsv")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, f := range features {
		files, err := filepath.Glob(filepath.Join(f.pkg, "*_test.go"))
		if err != nil || f.how == "" {
			t.Errorf("%s: %v, tested with %q", f.name, err, f.how)
		}
		outcomes := map[string]string{}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
				outcomes["example.com/"+f.pkg+" "+match[1]] = "pass"
			}
		}
		for one := range strings.SplitSeq(strings.Trim(f.tests.String(), "^()$"), "|") {
			only := feature{pkg: f.pkg, tests: regexp.MustCompile("^(" + one + ")$")}
			if passed, _, _ := only.count(outcomes, newestMinor, newestMinor); passed == 0 {
				t.Errorf("%s: no test of %s is called %s", f.name, f.pkg, one)
			}
		}
	}
}

// TestRecord: a part that ran replaces its earlier result, and counts for the features of its minor. A subtest
// that is named after a version counts for that.
func TestRecord(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "test"), 0o755))
	must(os.WriteFile(filepath.Join(root, "test/features.tsv"), []byte("feature\ttested with\tpackage\ttests\nDrains\tAPI server\ttest/drain\tTestDrain\n"), 0o644))
	record := func(commit string, passed bool, outcomes map[string]string) string {
		t.Helper()
		r, err := openRecorder(root, commit)
		must(err)
		r.load = func() string { return "3.50" }
		part := step{name: "drain on 1.36", env: []string{"DRA_STEWARD_KUBERNETES=1.36"}}
		at := time.Date(2026, 11, 24, 7, 0, 0, 0, time.UTC)
		must(r.part(part, partResult{Passed: passed, Minutes: 12.4, At: at}, &Results{outcomes: outcomes}))
		r, err = openRecorder(root, "")
		must(err)
		return r.partTable([]step{part, {name: "other"}}) + r.matrix()
	}
	record("aaaa", false, map[string]string{"m/test/drain TestDrain": "fail"})
	got := record("bbbb", true, map[string]string{"m/test/drain TestDrain": "pass", "m/test/drain TestDrain/1.35.4": "pass", "m/test/drain TestDrain/other": "fail", "m/test/drain TestDrainOther": "fail", "m/test/envtest/drains TestDrain": "fail"})
	for _, want := range []string{
		"| drain on 1.36 | 12 | 2026-11-24 | `bbbb` | 3.50 | passed |\n",
		"| other |  |  |  |  | not recorded |\n",
		"| Drains | API server: `test/drain` | not recorded | 1 passed (2026-11-24, `bbbb`) | 1 passed (2026-11-24, `bbbb`) | not recorded |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	if strings.Contains(got, "aaaa") {
		t.Errorf("the earlier result is still there:\n%s", got)
	}
}

// TestFlakeTable: the runs of all commits are added up.
func TestFlakeTable(t *testing.T) {
	runs := &table{columns: flakeColumns}
	runs.add("m/drain", "aaaa", "2026-11-23", "20", "1", "3.0", "2", "TestA")
	runs.add("m/drain", "bbbb", "2026-11-24", "20", "0", "3.0", "2", "")
	if got, want := flakeTable(runs), "| m/drain | 40 | 1 | TestA | 2 | 2026-11-24 |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant the row %s", got, want)
	}
	if got := recordedRuns(runs, "m/drain"); got != 40 {
		t.Errorf("%d recorded runs, want 40", got)
	}
	for took, want := range map[time.Duration]int{time.Second: 20, 3 * time.Minute: 5, 11 * time.Minute: 1} {
		if got := repetitions(took); got != want {
			t.Errorf("%s: %d runs, want %d", took, got, want)
		}
	}
}

func TestBrokenTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "broken.tsv")
	for text, want := range map[string]string{"a\tb\nonly\n": ":2: has 1 columns", "x\ty\n": ":1: has the columns"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readTable(file, "a", "b"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := between("no comment", "parts", ""); err == nil {
		t.Error("a page without the comment is written")
	}
}
