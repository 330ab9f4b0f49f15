// Command dra-steward guards the devices of a Kubernetes cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/dra-steward/dra-steward/cmd/dra-steward/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Run(ctx, os.Args[1:], app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
