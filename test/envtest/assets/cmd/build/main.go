// Command build finds or builds the binaries of a Kubernetes control plane and
// prints the folder that has them all; see package assets.
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

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := assets.Options{Output: stderr}
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Kubernetes, "kubernetes", "", "version or minor: one of "+strings.Join(assets.Versions(), ", ")+
		"; default "+assets.DefaultVersion+", or what "+assets.VersionVariable+" says")
	flags.StringVar(&o.Cache, "cache", "", "`folder` for what is built; default dra-steward in the user's cache folder")
	flags.BoolVar(&o.IgnoreInstalled, "ignore-installed", false, "do not use KUBEBUILDER_ASSETS and setup-envtest's store")
	flags.Usage = func() {
		fmt.Fprintf(stderr, `Usage: build [flags] [binary...]

Finds the binaries of a Kubernetes control plane, or builds them from Go modules
into the cache, and prints the folder that has them. With a cold build cache all
of them take 10 to 11 minutes on two idle cores; later runs take a second.

Binaries (default: all): %s

  KUBEBUILDER_ASSETS=$(go run ./assets/cmd/build) go test ./...

Flags:
`, strings.Join(assets.Binaries(), ", "))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Binaries = flags.Args()
	set, err := assets.Get(ctx, o)
	if err != nil {
		return err
	}
	dir, err := set.Dir()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, dir)
	return nil
}
