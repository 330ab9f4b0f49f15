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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.RunAs(ctx, os.Args, cmdutil.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, SetLogger: klog.SetLogger})
	stop()
	os.Exit(code)
}
