// Command golden records what the oracles of the older minors answer, into
// testdata/golden: to the examples of our rules and defaults, to what was found once, to
// generated writes, and to the corpus if it is there. Run it in the module's folder:
//
//	go run ./cmd/golden
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/dra-steward/dra-steward/internal/testsupport/corpus"
	"github.com/dra-steward/dra-steward/test/oracle"
	"github.com/dra-steward/dra-steward/test/oracle/build"
	"github.com/dra-steward/dra-steward/test/oracle/golden"
	"github.com/dra-steward/dra-steward/test/oracle/inputs"
	"github.com/dra-steward/dra-steward/test/oracle/objects"
	"github.com/dra-steward/dra-steward/test/oracle/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("golden", flag.ContinueOnError)
	flags.SetOutput(stderr)
	count := flags.Uint64("count", 3000, "`number` of generated writes")
	seed := flags.Uint64("seed", 1, "`number` that determines the writes")
	folder := flags.String("folder", "testdata/golden", "`folder` to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	own, err := cases(*seed, *count)
	if err != nil {
		return err
	}
	if err := golden.WriteCases(*folder, own); err != nil {
		return err
	}
	public, err := inputs.Public()
	if err != nil && !errors.Is(err, corpus.ErrMissing) {
		return err
	}
	all := slices.Concat(own, public)
	for _, version := range build.Versions() {
		if build.Minor(version) == oracle.Newest {
			continue
		}
		if err := record(ctx, version, *folder, all, stderr); err != nil {
			return fmt.Errorf("version %s: %w", version, err)
		}
	}
	return nil
}

// cases are the examples, what was found once, and the generated writes.
func cases(seed, count uint64) ([]wire.Case, error) {
	all, err := inputs.Examples()
	if err != nil {
		return nil, err
	}
	found, err := inputs.Found()
	if err != nil {
		return nil, err
	}
	all = append(all, found...)
	for i := range count {
		c, err := objects.Case(seed, i)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func record(ctx context.Context, version, folder string, cases []wire.Case, stderr io.Writer) error {
	o, err := oracle.Start(ctx, oracle.Options{Minor: version, Output: stderr})
	if err != nil {
		return err
	}
	answers, err := o.Judge(full(cases))
	if err := errors.Join(err, o.Close()); err != nil {
		return err
	}
	return golden.Write(folder, version, cases, answers)
}

// full asks for the objects too, which lack what a minor does not know.
func full(cases []wire.Case) []wire.Case {
	cases = slices.Clone(cases)
	for i := range cases {
		cases[i].Full = true
	}
	return cases
}
