package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Results collect what the steps report, which may run at the same time.
type Results struct {
	// Strict makes a skipped test a failure unless Allowed lists it.
	Strict  bool
	Allowed []Skip
	// Timer is the command with which go test runs test programs to know what they use; empty leaves that unknown.
	Timer string

	mutex    sync.Mutex
	steps    []string
	costs    map[string]string // of steps, by name
	packages map[string]*packageTime
	unproven []string // what a step did not check, and tests for which the machine lacks something
	slowest  []timed
	failures []string
	skips    []string
	outcomes map[string]string // of whole tests and of parts that are named after a version, by package and name
	passed   int
	failed   int
	broken   bool
}

// A timed test is a whole test with how long it took.
type timed struct {
	name string
	took time.Duration
}

// maxSlowest is how many of the slowest tests the summary names.
const maxSlowest = 40

// An event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
	Time                                      time.Time
}

// read prints the lines of r. Those of go test -json are counted, and of a test's
// output only a failed one's is printed.
func (r *Results) read(in io.Reader, out io.Writer, isTest bool) {
	output := map[string]*strings.Builder{}
	failed := map[string]bool{}
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadString('\n')
		var e event
		if isTest && json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			r.handle(e, out, output, failed)
		} else if line != "" {
			fmt.Fprint(out, line)
			r.noteUnchecked(line)
		}
		if err != nil {
			return
		}
	}
}

func (r *Results) handle(e event, out io.Writer, output map[string]*strings.Builder, failed map[string]bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	id := e.Package + " " + e.Test
	if e.Package != "" {
		r.of(e.Package).at(e)
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(out, e.Output)
	case e.Action == "output" && e.Test == "":
		r.packageLine(e.Package, e.Output, out)
	case e.Action == "output":
		if output[id] == nil {
			output[id] = &strings.Builder{}
		}
		output[id].WriteString(e.Output)
	case e.Test == "" && e.Action == "fail":
		unfinished(e.Package, out, output)
		if !failed[e.Package] {
			r.fail(e.Package)
		}
	case e.Test == "":
	case e.Action == "pass":
		r.passed++
		r.of(e.Package).passed++
	case e.Action == "fail":
		failed[e.Package] = true
		r.fail(id, messages(text(output[id]))...)
		fmt.Fprint(out, text(output[id]))
	case e.Action == "skip":
		r.skip(e.Package, e.Test, text(output[id]))
	}
	if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
		delete(output, id)
		r.ended(e, id)
	}
}

// ended keeps how a whole test ended, or a part of one that is named after a version.
func (r *Results) ended(e event, id string) {
	whole := !strings.Contains(e.Test, "/")
	if e.Test == "" || !whole && !versionNamed.MatchString(e.Test) {
		return
	}
	if r.outcomes == nil {
		r.outcomes = map[string]string{}
	}
	r.outcomes[id] = e.Action
	if !whole {
		return
	}
	r.slowest = append(r.slowest, timed{id, time.Duration(e.Elapsed * float64(time.Second))})
	slices.SortStableFunc(r.slowest, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	r.slowest = r.slowest[:min(len(r.slowest), maxSlowest)]
}

// slowestTests are lines for the tests that took a second or more.
func (r *Results) slowestTests() (lines []string) {
	for _, test := range r.slowest {
		if test.took >= time.Second {
			lines = append(lines, fmt.Sprintf("%8.1fs  %s", test.took.Seconds(), test.name))
		}
	}
	return lines
}

// unfinished prints the output of tests that never ended: the package ran out of
// time, or the process died.
func unfinished(pkg string, out io.Writer, output map[string]*strings.Builder) {
	for _, id := range slices.Sorted(maps.Keys(output)) {
		if strings.HasPrefix(id, pkg+" ") {
			fmt.Fprint(out, text(output[id]))
			delete(output, id)
		}
	}
}

// packageLine prints the output of a package other than that of its tests.
func (r *Results) packageLine(pkg, line string, out io.Writer) {
	if used, is := strings.CutPrefix(line, usedPrefix); is {
		r.of(pkg).used, _ = strconv.ParseFloat(strings.TrimSpace(used), 64) // else it stays unknown
		return
	}
	if line != "PASS\n" && line != "FAIL\n" && !strings.HasPrefix(line, "?") {
		fmt.Fprint(out, line)
	}
}

// fail notes a failed test, or package, with what it said.
func (r *Results) fail(id string, said ...string) {
	r.failed++
	r.failures = append(r.failures, strings.TrimSpace(id))
	for _, line := range said {
		r.failures = append(r.failures, "  "+line)
	}
}

const (
	// maxMessages is how many of the last lines of a failed test the summary repeats.
	maxMessages = 10
	// maxMessage is the length of such a line, in bytes.
	maxMessage = 300
)

// messages are the last lines that a test printed with its own position. The rest is what the
// programs that it runs log.
func messages(output string) (lines []string) {
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); strings.Contains(line, "_test.go:") && !strings.Contains(line, `{"level"`) {
			lines = append(lines, strings.ToValidUTF8(line[:min(len(line), maxMessage)], ""))
		}
	}
	return lines[max(0, len(lines)-maxMessages):]
}

// skip notes a skipped test with the reason it gave.
func (r *Results) skip(pkg, test, output string) {
	reason := "no reason given"
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			reason = line
		}
	}
	entry := fmt.Sprintf("%s %s: %s", pkg, test, reason)
	r.of(pkg).skipped++
	if listed, why := find(r.Allowed, pkg, test); listed {
		entry += " (listed: " + why + ")"
		if strings.HasPrefix(why, lacking) {
			r.unproven = append(r.unproven, fmt.Sprintf("%s %s: %s", pkg, test, why))
		}
	} else if r.Strict {
		entry += " (NOT LISTED in test/skips.txt, hence a failure)"
		r.broken = true
	}
	r.skips = append(r.skips, entry)
}

// wantPassed fails a part none of whose tests has passed: it has shown nothing.
func (r *Results) wantPassed(part string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.passed == 0 && !r.Failed() {
		r.fail(fmt.Sprintf("%s: none of its tests passed, %d were skipped: a part that tests nothing fails", part, len(r.skips)))
	}
}

// lacking begins the reason of a skip, in test/skips.txt, for which the machine lacks something.
const lacking = "needs "

// noteUnchecked keeps a line with which a step says that it did not check something.
func (r *Results) noteUnchecked(line string) {
	if strings.Contains(line, ": not checked: ") {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.unproven = append(r.unproven, strings.TrimSpace(line))
	}
}

// notProven are lines for what this run says nothing about: whole packages first.
func (r *Results) notProven() (lines []string) {
	whole := map[string]bool{}
	for _, pkg := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[pkg]
		if whole[pkg] = p.passed == 0 && p.skipped > 0 && !slices.ContainsFunc(r.failures, func(id string) bool { return id == pkg || strings.HasPrefix(id, pkg+" ") }); whole[pkg] {
			i := slices.IndexFunc(r.skips, func(skip string) bool { return strings.HasPrefix(skip, pkg+" ") })
			lines = append(lines, fmt.Sprintf("%s: none of its tests ran, %d were skipped, the first one is %s", pkg, p.skipped, strings.TrimPrefix(r.skips[i], pkg+" ")))
		}
	}
	for _, line := range r.unproven {
		if pkg, _, _ := strings.Cut(line, " "); !whole[pkg] {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *Results) step(name string, took time.Duration, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	verdict := "ok"
	if err != nil {
		verdict = "FAILED"
		r.broken = true
	}
	r.steps = append(r.steps, fmt.Sprintf("%-40s %8.1fs  %s%s", name, took.Seconds(), verdict, r.costs[name]))
}

// Failed says whether anything went wrong.
func (r *Results) Failed() bool { return r.broken || r.failed > 0 }

// Print writes the summary of a run that took so long. Its last line has the numbers.
func (r *Results) Print(out io.Writer, took time.Duration) {
	fmt.Fprintf(out, "== all steps together: %.0fs\n", took.Seconds())
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"skipped", r.skips}, {"failed", r.failures}, {"steps", r.steps}, {"longest packages", longestPackages(r.packages)},
		{"slowest tests", r.slowestTests()}, {"not proven", r.notProven()},
	} {
		if len(part.lines) > 0 {
			fmt.Fprintf(out, "== %s\n", part.title)
		}
		for _, line := range part.lines {
			fmt.Fprintln(out, strings.TrimSuffix(line, "\n"))
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skips))
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}
