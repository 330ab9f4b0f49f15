// Command demo shows what dra-steward does, on a real control plane: it starts etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler on loopback, puts
// dra-steward in front of the API server as the chart installs it, applies the
// examples and prints what comes of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/dra-steward/dra-steward/test/envtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil && interrupted:
		fmt.Fprintln(os.Stderr, "demo: interrupted, everything is stopped and removed")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	keep := flags.Bool("keep", false, "leave everything running until interrupted, and print how to use it")
	version := flags.String("kubernetes", "", "Kubernetes version, such as 1.36 (default 1.37.0)")
	examples := flags.String("examples", "examples", "folder of the examples")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cluster, err := envtest.Start(ctx, envtest.Options{
		Kubernetes: *version, ControllerManager: true, Scheduler: true, Kubectl: true,
		Nodes: []string{nodeName}, Output: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	show := &show{out: os.Stdout, cluster: cluster, examples: *examples}
	defer func() { err = errors.Join(err, show.close()) }()
	if err := show.run(ctx); err != nil {
		return err
	}
	if *keep {
		fmt.Printf("\nStill running; interrupt to stop and remove everything.\n\n  export KUBECONFIG=%s\n  %s get resourceslices,resourceclaims,pods\n",
			cluster.Kubeconfig(), cluster.Kubectl(ctx).Path)
		<-ctx.Done()
		fmt.Println("\nStopping.")
	}
	return nil
}
