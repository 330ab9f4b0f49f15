package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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

// A flakeRun runs packages again and again under load, and records how many of the runs failed.
type flakeRun struct {
	commit string
	out    io.Writer
	// recording is held while a row is added.
	recording sync.Mutex
}

// A testedPackage is a package that has tests.
type testedPackage struct{ path, dir string }

// flakes runs the packages that match, those with the fewest recorded runs first: as many at a
// time as there are processors, and something that keeps one processor busy all the time.
func flakes(ctx context.Context, only string, out io.Writer) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("PACKAGE: %w", err)
	}
	commit, err := commitHere(ctx)
	if err != nil {
		return err
	}
	packages, err := testedPackages(ctx)
	if err != nil {
		return err
	}
	recorded, err := readFlakes(".")
	if err != nil {
		return err
	}
	packages = slices.DeleteFunc(packages, func(p testedPackage) bool { return !match.MatchString(p.path) })
	slices.SortStableFunc(packages, func(a, b testedPackage) int {
		return cmp.Compare(recordedRuns(recorded, a.path), recordedRuns(recorded, b.path))
	})
	defer busy(ctx)()
	run := &flakeRun{commit: commit, out: out}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.NumCPU())
	for _, pkg := range packages {
		all.Go(func() error { return run.repeat(ctx, pkg) })
	}
	return all.Wait()
}

func recordedRuns(t *table, pkg string) (runs int) {
	for _, row := range t.rows {
		if n, _ := strconv.Atoi(row[3]); row[0] == pkg {
			runs += n
		}
	}
	return runs
}

// testedPackages are the packages with tests of all modules.
func testedPackages(ctx context.Context) (packages []testedPackage, err error) {
	modules, err := findModules(".")
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		list := exec.CommandContext(ctx, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}", "./...")
		list.Dir = module
		text, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", list, module, err)
		}
		for line := range strings.Lines(string(text)) {
			if path, dir, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
				packages = append(packages, testedPackage{path, dir})
			}
		}
	}
	return packages, nil
}

// repeat runs one package and adds a row for its runs.
func (r *flakeRun) repeat(ctx context.Context, pkg testedPackage) error {
	dir, err := os.MkdirTemp("", "flakes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, ".")
	build.Dir, build.Env = pkg.dir, compileOnce()
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, text)
	}
	s := step{name: pkg.path, dir: pkg.dir, args: []string{"go", "tool", "test2json", "-p", pkg.path, binary, "-test.v=test2json", "-test.timeout=60m"}}
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
			fmt.Fprintf(r.out, "%s: run %d failed:\n%s\n", pkg.path, runs, strings.Join(results.failures, "\n"))
		}
		if runs == 1 {
			want = repetitions(spent)
		}
	}
	if runs == 0 {
		return ctx.Err()
	}
	return r.record(pkg.path, runs, failed, spent, failures)
}

// record adds a row.
func (r *flakeRun) record(pkg string, runs, failed int, spent time.Duration, failures map[string]bool) error {
	r.recording.Lock()
	defer r.recording.Unlock()
	seconds := spent.Seconds() / float64(runs)
	fmt.Fprintf(r.out, "%s: %d of %d runs failed, %.1f s each\n", pkg, failed, runs, seconds)
	t, err := readFlakes(".")
	if err != nil {
		return err
	}
	t.add(pkg, r.commit, time.Now().UTC().Format(time.DateOnly), strconv.Itoa(runs), strconv.Itoa(failed), fmt.Sprintf("%.1f", seconds), loadAverage(), strings.Join(slices.Sorted(maps.Keys(failures)), " "))
	return t.write()
}

// busy keeps one processor busy until stop is called.
func busy(ctx context.Context) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		for ctx.Err() == nil {
			for range 1 << 20 { //nolint:staticcheck // only time is wanted
			}
		}
	}()
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
