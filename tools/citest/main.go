// Command citest runs the checks and tests of every module of the repository, one step
// after the other except those that mostly wait, and ends with a summary: the time of each
// step, the packages, and how many tests passed, failed and were skipped.
//
// A failed step does not stop the next one. With CI=true in the environment a
// skipped test is a failure, unless test/skips.txt lists it with its reason.
//
//	citest short    lint, and the tests that need no control plane
//	citest all      all of short, and the tests on a real control plane
//	citest long     what takes longer, in parts: the control planes of the older minors, and
//	                others. A second argument selects parts by a regular expression; without it,
//	                parts that have passed at this commit do not run again
//	citest lint     formatting, vet, staticcheck, and the words of the texts for users
//	citest flakes   the packages that match a second argument, again and again under load
//	citest parts    the names of the parts of long, as JSON
//	citest pages    write the tables of recorded results into the pages
//	citest ranges   compare the output of benchmarks, on standard input, with test/results/ranges.tsv
//
// With DRA_STEWARD_RECORD=yes, all, long and ranges write their results into test/results.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 2 && os.Args[1] == execCommand {
		stop()
		os.Exit(executed(os.Args[2:]))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout))
}

// run runs one suite and returns the exit code: 1 when something failed, 2 when it
// could not start.
func run(ctx context.Context, args []string, out io.Writer) int {
	if len(args) != 1 && !(len(args) == 2 && (args[0] == "long" || args[0] == "flakes")) {
		fmt.Fprintln(out, "citest: want one suite: short, all, long, lint, flakes, parts, pages or ranges; long takes a regular expression of parts, flakes one of packages")
		return 2
	}
	switch args[0] {
	case "flakes":
		return ended(flakes(ctx, strings.Join(args[1:], ""), out), out)
	case "parts":
		return ended(writeParts(".", out), out)
	case "pages":
		return ended(writePages("."), out)
	case "ranges":
		return ended(ranges(".", os.Stdin, out), out)
	}
	steps, err := suite(args[0], ".")
	if err != nil {
		return ended(err, out)
	}
	allowed, err := readSkips("test/skips.txt")
	if err != nil {
		return ended(err, out)
	}
	newResults := func() *Results { return &Results{Strict: os.Getenv("CI") == "true", Allowed: allowed, Timer: timer()} }
	if args[0] == "long" {
		return runLong(ctx, steps, strings.Join(args[1:], ""), out, newResults)
	}
	record, err := newRecorder(ctx)
	if err != nil {
		return ended(err, out)
	}
	report, begin := newResults(), time.Now()
	runAll(ctx, steps, out, report)
	report.Print(out, time.Since(begin))
	if err := record.tested(newestMinor, begin.UTC(), report); err != nil {
		return ended(err, out)
	}
	if ctx.Err() != nil || report.Failed() {
		return 1
	}
	return 0
}

// ended prints an error that is not one of tests, and returns the exit code.
func ended(err error, out io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(out, "citest:", err)
	return 2
}

func runLong(ctx context.Context, parts []step, only string, out io.Writer, newResults func() *Results) int {
	record, err := newRecorder(ctx)
	if err != nil {
		return ended(err, out)
	}
	k, err := keptHere(ctx)
	failed := false
	if err == nil {
		failed, err = runParts(ctx, parts, only, k, record, out, newResults)
	}
	if err != nil {
		return ended(err, out)
	}
	if failed {
		return 1
	}
	return 0
}

// runAll runs the steps in their order. The output of a parallel step is printed when it
// has ended.
func runAll(ctx context.Context, steps []step, out io.Writer, report *Results) {
	var parallel []func()
	for _, s := range steps {
		if ctx.Err() != nil {
			fmt.Fprintln(out, "citest: interrupted")
			break
		}
		if !s.parallel {
			s.runAndSay(ctx, out, report)
			continue
		}
		fmt.Fprintf(out, "== %s: started, the next steps run at the same time\n", s.name)
		var text bytes.Buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.runAndSay(ctx, &text, report)
		}()
		parallel = append(parallel, func() {
			<-done
			_, _ = text.WriteTo(out)
		})
	}
	for _, end := range parallel {
		end()
	}
}

func (s step) runAndSay(ctx context.Context, out io.Writer, report *Results) {
	fmt.Fprintf(out, "== %s: %s\n", s.name, s)
	begin := time.Now()
	err := s.run(ctx, out, report)
	report.step(s.name, time.Since(begin), err)
	if err != nil {
		fmt.Fprintf(out, "%s: %v\n", s.name, err)
	}
}
