package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A packageTime is what the tests of a package took, and how they ended.
type packageTime struct {
	// began and ended are when the test program did, first and last when the first test began and the last one ended.
	began, first, last, ended time.Time
	// link and used are seconds of a processor: of the linker, and of the test program with the processes that it
	// waited for.
	link, used float64
	// passed and skipped count tests and their parts.
	passed, skipped int
}

// maxPackages is how many packages the summary names.
const maxPackages = 40

// longest are lines for the packages that took a second or more.
func longestPackages(packages map[string]*packageTime) (lines []string) {
	names := slices.SortedStableFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[b].all(), packages[a].all()), cmp.Compare(a, b))
	})
	for _, name := range names[:min(len(names), maxPackages)] {
		p := packages[name]
		if p.all() < 1 {
			continue
		}
		if len(lines) == 0 {
			lines = append(lines, "   all  start    end   link   used  waits  seconds: from start to end, before the first test, after the last one, of a processor to link and to test, and the rest")
		}
		waits := "     ?"
		if p.used > 0 {
			waits = fmt.Sprintf("%6.1f", max(0, p.all()-p.used))
		}
		lines = append(lines, fmt.Sprintf("%6.1f %6.1f %6.1f %6.1f %6.1f %s  %s", p.all(), seconds(p.began, p.first), seconds(p.last, p.ended), p.link, p.used, waits, name))
	}
	return lines
}

func (p *packageTime) all() float64 { return seconds(p.began, p.ended) }

// seconds are the seconds from one time to another; 0 if one of them is not known.
func seconds(from, to time.Time) float64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return to.Sub(from).Seconds()
}

// at keeps the time of an event.
func (p *packageTime) at(e event) {
	switch {
	case e.Action == "start":
		p.began = e.Time
	case e.Action == "run" && p.first.IsZero():
		p.first = e.Time
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
	case e.Test == "":
		p.ended = e.Time
	default:
		p.last = e.Time
	}
}

// usedPrefix begins the line that says how much of a processor a test program used.
const usedPrefix = "citest: seconds of a processor: "

// execCommand is the argument with which citest is the program of go test -exec.
const execCommand = "exec"

// timer is this program as that of go test -exec; empty if its path cannot be an argument of go test.
func timer() string {
	self, err := os.Executable()
	if err != nil || strings.ContainsAny(self, " '\"") {
		return ""
	}
	return self + " " + execCommand
}

// executed runs the program of a test, says how much of a processor it used and returns its exit code. An interrupt
// is one of the whole group: the test gets it itself.
func executed(args []string) int {
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if err := command.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "citest:", err)
		return 2
	}
	go func() {
		for s := range signals {
			if s != os.Interrupt {
				_ = command.Process.Signal(s) // it may have ended
			}
		}
	}()
	_ = command.Wait() // its state says how it ended
	state := command.ProcessState
	fmt.Printf("%s%.2f\n", usedPrefix, (state.UserTime() + state.SystemTime()).Seconds())
	if code := state.ExitCode(); code >= 0 {
		return code
	}
	fmt.Println("citest:", state)
	return 2
}

// measured makes go test write what it did into a file in dir and, if it runs the tests in any case, run their programs
// with one that says what they used.
func (s step) measured(dir, timer string) (step, string) {
	if len(s.args) < 2 || s.args[1] != "test" || !s.tests() {
		return s, ""
	}
	graph := filepath.Join(dir, "actions.json")
	more := []string{"-debug-actiongraph=" + graph}
	if timer != "" && slices.Contains(s.args, "-count=1") {
		more = append(more, "-exec="+timer)
	}
	s.args = slices.Insert(slices.Clone(s.args), 2, more...)
	return s, graph
}

// cost keeps what a step used. A go command that does not write what it did leaves unknown what it compiled and linked.
func (r *Results) cost(name string, ended *os.ProcessState, graph string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.costs == nil {
		r.costs = map[string]string{}
	}
	r.costs[name] = fmt.Sprintf("  %.1fs of a processor", (ended.UserTime() + ended.SystemTime()).Seconds())
	if compiled := r.linked(graph); compiled > 0 {
		r.costs[name] += fmt.Sprintf(", %.1fs to compile", compiled)
	}
}

// linked reads what go test did: the seconds of a processor for each program that it linked, and for all that it
// compiled.
func (r *Results) linked(graph string) (compiled float64) {
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	data, err := os.ReadFile(graph)
	if err != nil || json.Unmarshal(data, &actions) != nil {
		return 0
	}
	for _, a := range actions {
		took := (a.CmdUser + a.CmdSys).Seconds()
		switch a.Mode {
		case "link":
			r.of(strings.TrimSuffix(a.Package, ".test")).link += took
		case "build":
			compiled += took
		}
	}
	return compiled
}

// of is what is known of a package.
func (r *Results) of(pkg string) *packageTime {
	if r.packages == nil {
		r.packages = map[string]*packageTime{}
	}
	if r.packages[pkg] == nil {
		r.packages[pkg] = &packageTime{}
	}
	return r.packages[pkg]
}
