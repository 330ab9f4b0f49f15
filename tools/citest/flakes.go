package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flakeColumns are those of the table of repeated runs. Its rows are never replaced.
var flakeColumns = []string{"package", "commit", "date", "runs", "failed", "seconds", "load", "what failed"}

func readFlakes(root string) (*table, error) {
	return readTable(filepath.Join(root, "test/results/flakes.tsv"), flakeColumns...)
}

// repetitions is how often a package is run whose first run took so long.
func repetitions(took time.Duration) int {
	switch {
	case took < 2*time.Minute:
		return 20
	case took < 10*time.Minute:
		return 5
	}
	return 1
}

// flakes runs the packages that match again and again, under load, and records how many of the
// runs failed.
func flakes(ctx context.Context, only string, out io.Writer) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("PACKAGE: %w", err)
	}
	commit, err := commitHere(ctx)
	if err != nil {
		return err
	}
	modules, err := findModules(".")
	if err != nil {
		return err
	}
	for _, module := range modules {
		packages, err := testedPackages(ctx, module)
		if err != nil {
			return err
		}
		for _, pkg := range packages {
			if !match.MatchString(pkg) || ctx.Err() != nil {
				continue
			}
			if err := repeat(ctx, module, pkg, commit, out); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// testedPackages are the packages of a module that have tests.
func testedPackages(ctx context.Context, module string) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	list.Dir = module
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", list, module, err)
	}
	return strings.Fields(string(out)), nil
}

// repeat runs one package and adds a row for its runs.
func repeat(ctx context.Context, module, pkg, commit string, out io.Writer) error {
	s := step{name: pkg, dir: module, args: []string{"go", "test", "-json", "-count=1", "-vet=off", "-timeout=60m", pkg}}
	build := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-run=^$", pkg)
	build.Dir = module
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, text)
	}
	defer busy(ctx)()
	var spent time.Duration
	failed, failures := 0, map[string]bool{}
	runs := 0
	for want := 1; runs < want; {
		begin, results := time.Now(), &Results{}
		err := s.run(ctx, io.Discard, results)
		if ctx.Err() != nil {
			break
		}
		spent, runs = spent+time.Since(begin), runs+1
		if err != nil || results.Failed() {
			failed++
			for id, outcome := range results.outcomes {
				if _, test, _ := strings.Cut(id, " "); outcome == "fail" {
					failures[test] = true
				}
			}
		}
		if runs == 1 {
			want = repetitions(spent)
		}
	}
	if runs == 0 {
		return ctx.Err()
	}
	seconds := spent.Seconds() / float64(runs)
	fmt.Fprintf(out, "%s: %d of %d runs failed, %.1f s each\n", pkg, failed, runs, seconds)
	t, err := readFlakes(".")
	if err != nil {
		return err
	}
	t.add(pkg, commit, time.Now().UTC().Format(time.DateOnly), strconv.Itoa(runs), strconv.Itoa(failed), fmt.Sprintf("%.1f", seconds), loadAverage(), strings.Join(slices.Sorted(maps.Keys(failures)), " "))
	return t.write()
}

// busy keeps all processors busy until stop is called.
func busy(ctx context.Context) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	for range runtime.NumCPU() {
		go func() {
			for ctx.Err() == nil {
				for range 1 << 20 { //nolint:staticcheck // only time is wanted
				}
			}
		}()
	}
	return stop
}

// flakeTable is the table of the page: the runs of all commits together.
func flakeTable(t *table) string {
	type sum struct {
		runs, failed int
		commits      map[string]bool
		last         string
		what         string
	}
	sums := map[string]*sum{}
	for _, row := range t.rows {
		s := sums[row[0]]
		if s == nil {
			s = &sum{commits: map[string]bool{}}
			sums[row[0]] = s
		}
		runs, _ := strconv.Atoi(row[3])
		failed, _ := strconv.Atoi(row[4])
		s.runs, s.failed, s.last = s.runs+runs, s.failed+failed, max(s.last, row[2])
		s.commits[row[1]] = true
		s.what = strings.TrimSpace(cmp.Or(row[7], s.what))
	}
	var rows [][]string
	for _, pkg := range slices.Sorted(maps.Keys(sums)) {
		s := sums[pkg]
		rows = append(rows, []string{strings.TrimPrefix(pkg, "github.com/dra-steward/dra-steward/"), strconv.Itoa(s.runs), strconv.Itoa(s.failed), s.what, strconv.Itoa(len(s.commits)), s.last})
	}
	return markdown([]string{"package", "runs", "failed", "what failed last", "commits", "last run"}, rows)
}
