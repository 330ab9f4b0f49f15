// Command oracle holds our rules and defaults against the API server's own code, for
// any number of generated writes:
//
//	go run ./cmd/oracle -count 100000 -seed 1 -minor 1.37
//
// It shows its progress and prints what they disagree about, in the smallest object
// that shows it. The exit code is 1 if there is any disagreement, 2 if it could not
// be looked for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/test/oracle"
	"github.com/dra-steward/dra-steward/test/oracle/build"
	"github.com/dra-steward/dra-steward/test/oracle/campaign"
	"github.com/dra-steward/dra-steward/test/oracle/inputs"
)

// Beside the generated writes, one in so many is one of the examples and the corpus with
// one value changed, or comes of upstream's fuzzer.
const (
	variedShare = 10
	fuzzedShare = 100
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	agreed, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(2)
	case !agreed:
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (agreed bool, err error) {
	flags := flag.NewFlagSet("oracle", flag.ContinueOnError)
	flags.SetOutput(stderr)
	count := flags.Uint64("count", 100_000, "`number` of writes")
	seed := flags.Uint64("seed", 1, "`number` that determines the writes")
	from := flags.Uint64("from", 0, "`number` of the first write")
	minor := flags.String("minor", oracle.Newest, "Kubernetes `minor`: one of "+strings.Join(build.Versions(), ", ")+" or a minor of these")
	limit := flags.Duration("time", 0, "stop after this `time`; 0 is never")
	page := flags.String("record", "", "write the result into the table of this `page`")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	o, err := oracle.Start(ctx, oracle.Options{Minor: *minor, Output: stderr})
	if err != nil {
		return false, err
	}
	c := campaign.Campaign{Oracle: o, Progress: stderr}
	var deadline time.Time
	if *limit > 0 {
		deadline = time.Now().Add(*limit)
	}
	if err := c.Generated(ctx, *seed, *from, *count, deadline); err != nil {
		return false, err
	}
	cases, err := inputs.Examples()
	if err != nil {
		return false, err
	}
	if public, err := inputs.Public(); err == nil {
		cases = append(cases, public...)
	} else if !errors.Is(err, corpus.ErrMissing) {
		return false, err
	}
	if err := c.Varied(ctx, *seed, *count/variedShare, cases); err != nil {
		return false, err
	}
	if err := c.Fuzzed(ctx, *seed, *count/fuzzedShare); err != nil {
		return false, err
	}
	if err := c.Shrink(); err != nil {
		return false, err
	}
	c.Report(stdout)
	return len(c.Disagreements) == 0, errors.Join(record(*page, row(o.Minor(), *seed, &c, time.Now())), o.Close())
}
