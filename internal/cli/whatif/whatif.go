// Package whatif has the commands that show what a change does before it is made.
package whatif

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// options are the flags of all commands.
type options struct {
	clusterread.SnapshotOptions
	output    string
	noHeaders bool
	patched   bool
	selector  string
	file      string
	replicas  int
}

// Command returns the command whatif with its subcommands.
func Command(streams cmdutil.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "whatif",
		Short: "Predict which pods leave after a change, and where they land again",
		Long: `whatif predicts the effect of a change, and changes nothing. For each pod that leaves it shows
the time, and the node on which the pod lands again, or the first reason why it does not.
kube-scheduler's own allocator allocates the devices. For each node, whatif checks node selector and affinity, taints,
unschedulable, host ports, requests of cpu, memory, pods and extended resources, bound volumes,
topology spread, and affinity to pods. Where something else decides, the pod is unknown, with the
name of what is not checked.

A pod is contested if its place depends on the order of pods, or on the nodes that kube-scheduler
selects for others. The last line then has the least and the most pods that land.

Exit codes: 0 all pods land, 1 some do not, 2 the command failed, 3 none waits for certain, but of
some it is unknown.`,
		Example: `  dra-steward whatif taint node-1/gpu-0 example.com/broken:NoExecute
  dra-steward whatif drain node/node-1
  dra-steward whatif node node-1`,
		Args: cmdutil.NoSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(taintCommand(streams), drainCommand(streams), nodeCommand(streams), claimsCommand(streams), patchCommand(streams), classCommand(streams), upgradeCommand(streams))
	return c
}

func newOptions() *options {
	return &options{SnapshotOptions: clusterread.SnapshotOptions{Claims: true, Nodes: true, Gates: true, AllPods: true}}
}

func (o *options) addFlags(c *cobra.Command) {
	o.AddFlags(c)
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(formats(), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the headers of the columns")
	f.BoolVar(&o.patched, "patched", false, "apply ResourceSlicePatches to the devices, as dra-steward-scheduler does")
	o.Scheduler.AddFlags(f)
	cmdutil.Complete(c, "output", formats())
}

// completeFiles leaves manifests to the shell.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}

// fileFlag adds -f.
func (o *options) fileFlag(c *cobra.Command, what string) {
	c.Flags().StringVarP(&o.file, "file", "f", "", "file with "+what+"; - is standard input")
	cmdutil.CompleteWith(c, "file", completeFiles)
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

func formats() []string { return cmdutil.OutputFormats("text", "wide", "name") }

// A plan makes a change of a cluster.
type plan func(l *clusterread.Snapshot, cluster placement.Cluster) (placement.Change, error)

// run reads the cluster, predicts the change and prints the answer.
func (o *options) run(ctx context.Context, streams cmdutil.Streams, plan plan) error {
	if err := cmdutil.CheckOutput(o.output, "text", "wide", "name"); err != nil {
		return err
	}
	l, err := o.Read(ctx, streams)
	if err != nil {
		return err
	}
	cluster := l.Placement(o.patched)
	change, err := plan(l, cluster)
	if err != nil {
		return err
	}
	answer, err := cmdutil.While(streams, "placing the pods", func() (placement.Answer, error) { return cluster.Predict(ctx, change) })
	if err != nil {
		return err
	}
	if err := write(streams.Out, o.output, !o.noHeaders, answer); err != nil {
		return err
	}
	if o.Files == nil && (o.output == "text" || o.output == "wide") {
		printable.Printf(streams.Out, "feature gates: %s\n", answer.FeatureGates.Source)
	}
	switch {
	case answer.Stranded() > answer.Unknown():
		return cmdutil.ErrFindings
	case answer.Unknown() > 0:
		return cmdutil.ErrUnknown
	}
	return nil
}

// targets finds the devices that arguments or --node-selector name.
func (o *options) targets(l *clusterread.Snapshot, args []string) ([]taints.Target, error) {
	namespace, err := o.Client.Namespace()
	if err != nil {
		return nil, err
	}
	scope := l.Scope(namespace)
	if o.selector != "" {
		if len(args) > 1 || len(args) == 1 && taints.Kinds()[args[0]] != "node" {
			return nil, fmt.Errorf("name a TARGET or set --node-selector, not both")
		}
		names, err := clusterread.NodesWith(l.Nodes, o.selector)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		return scope.OfNodes(names...)
	}
	var found []taints.Target
	for _, name := range taints.Arguments(args) {
		of, err := scope.Resolve(name)
		if err != nil {
			return nil, err
		}
		found = append(found, of...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("name a TARGET, or set --node-selector")
	}
	return found, nil
}

func (o *options) selectorFlag(c *cobra.Command) {
	c.ValidArgsFunction = o.CompleteTargets
	c.Flags().StringVarP(&o.selector, "node-selector", "l", "", "instead of TARGET: the devices of the nodes with these labels, such as rack=r7")
}

// nodeNames are the names of nodes that must exist.
func nodeNames(l *clusterread.Snapshot, args []string) ([]string, error) {
	var names []string
	for _, arg := range args {
		name := strings.TrimPrefix(arg, "node/")
		if !slices.ContainsFunc(l.Nodes, func(n *corev1.Node) bool { return n.Name == name }) {
			return nil, fmt.Errorf("node %q not found", name)
		}
		names = append(names, name)
	}
	return names, nil
}
