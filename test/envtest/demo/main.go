// Command demo shows what dra-steward does, on a real control plane: it starts etcd,
// kube-apiserver, kube-controller-manager and kube-scheduler on loopback, puts
// dra-steward in front of the API server as the chart installs it, runs its controller,
// and types the commands of a person on call.
//
// Under the name dra-steward the same file is that program, so that the demonstration
// needs no second build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/envtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if filepath.Base(os.Args[0]) == program {
		os.Exit(cli.Run(ctx, os.Args[1:], cmdutil.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	// The controller and the webhook keep logs of their own; their libraries write to stderr.
	// controller-runtime's writes a stack 30 s after the start, unless it has a logger by then.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
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
	version := flags.String("kubernetes", "", "Kubernetes version, such as 1.37 (default 1.37.0)")
	examples := flags.String("examples", "examples", "folder of the examples")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cluster, err := envtest.Start(ctx, envtest.Options{
		Kubernetes: *version, ControllerManager: true, Scheduler: true, Kubectl: true, DeviceTaintRules: true,
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
	fmt.Printf("\nDone.")
	if !*keep {
		fmt.Printf(" Keep the control plane running with: make demo KEEP=1\n\nThen type:\n\n%s", commands)
		return nil
	}
	fmt.Printf(" The control plane is still running. Ctrl-C stops and removes everything.\n\n"+
		"In another terminal, type:\n\n  export KUBECONFIG=%s PATH=%s:\"$PATH\"\n%s", cluster.Kubeconfig(), show.bin, commands)
	<-ctx.Done()
	fmt.Println("\nStopping.")
	return nil
}

// commands are the first three to type in a cluster that has dra-steward.
const commands = `  dra-steward devices
  dra-steward why pod/training-1
  dra-steward drain node/node-1 --dry-run
`
