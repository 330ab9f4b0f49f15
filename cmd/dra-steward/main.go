// Command dra-steward protects the devices of a Kubernetes cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for the windows of drains: the image has no database of time zones

	"k8s.io/klog/v2"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	code, ended := cli.UntilSignal(os.Args[1:], signals, func(ctx context.Context) int {
		return cli.RunAs(ctx, os.Args, cmdutil.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, SetLogger: klog.SetLogger})
	})
	if !ended {
		_, _ = os.Stderr.WriteString("dra-steward: interrupted before the end\n") // there is no other place to report to
	}
	os.Exit(code)
}
