// Package roll is the command that creates, follows and steers DeviceRolls.
package roll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// options are the flags of roll.
type options struct {
	clusterwrite.Drain
	clusterread.SnapshotOptions
	name, driverPods, waitFor string
	nodes                     []string
	nodeLabels, perLabel      string
	atATime, canary           int32
	proof                     v1alpha1.RollProof
	until, command            string
	// said is the other command that was reported last, taking what this one last wrote into the roll to take a node.
	said, taking string
	// patience is how long the command tries again while the API server is away.
	patience time.Duration
	timeouts [4]time.Duration
	dry      cmdutil.DryRun
	wait     bool
	timeout  time.Duration
	changed  func(flag string) bool
	// steering
	output    string
	noHeaders bool

	list, proceed, pause, resume, undo, remove bool
	skip                                       []string
	// work is true for "roll nodes".
	work bool
}

// Command returns the command roll.
func Command(streams cmdutil.Streams) *cobra.Command {
	o := &options{patience: patience}
	c := &cobra.Command{
		Use:   "roll DRIVER",
		Short: "Maintain drivers and nodes one by one: drain the consumers first, replace the driver last",
		Long: `roll creates a DeviceRoll. Node by node, the controller drains the devices of the driver within
PodDisruptionBudgets, deletes the pods of the driver or waits for their replacement, waits until the new
pods publish as many devices as before, and uncordons the devices. It stops at the first node that fails. The same command
again writes the settings whose flags are given, and shows the progress.

--continue, --skip, --pause, --resume, --undo and --delete act on an existing roll: name the roll, or
the driver if that has one roll that is not complete.

Exit codes: 0 done (with --wait: complete), 1 held, timed out, or with --dry-run pods that do not land again,
2 the command failed.`,
		Example: `  dra-steward roll gpu.example.com --driver-selector gpu-driver/app=gpu-driver --dry-run
  dra-steward roll gpu.example.com --driver-selector gpu-driver/app=gpu-driver --canary 1 --wait
  dra-steward roll gpu.example.com --driver-selector gpu-operator/app=driver --wait-for operator --nodes node-7
  dra-steward roll --continue gpu.example.com
  dra-steward roll --skip node-3 gpu.example.com
  dra-steward roll --list`,
		RunE: func(c *cobra.Command, args []string) error {
			o.changed = c.Flags().Changed
			return o.run(c.Context(), streams, args)
		},
	}
	o.addFlags(c)
	o.addSteering(c)
	f := c.Flags()
	f.StringVar(&o.driverPods, "driver-selector", "", "namespace and labels of the pods of the driver: NAMESPACE/KEY=VALUE[,KEY=VALUE...]")
	f.StringVar(&o.waitFor, "wait-for", "", "operator: wait until an operator replaces the pods of the driver, rather than delete them")
	cmdutil.Complete(c, "wait-for", []string{"operator"})
	c.AddCommand(nodesCommand(streams))
	return c
}

func nodesCommand(streams cmdutil.Streams) *cobra.Command {
	o := &options{work: true, patience: patience}
	c := &cobra.Command{
		Use:   "nodes [DRIVER]",
		Short: "Drain nodes one by one for work on kernel or firmware",
		Long: `nodes creates a DeviceRoll for work on nodes. Node by node, the controller cordons the node and drains its
devices, waits until the work is done, and uncordons the node when the devices are published again.

The work is done when the node has a condition or an annotation (--until), or when --command has ended with
exit code 0. That command runs on this machine while "roll nodes" runs, with the name of the node in the
variable NODE.`,
		Example: `  dra-steward roll nodes gpu.example.com --nodes node-7 --command 'ssh "$NODE" sudo firmware-update' --wait
  dra-steward roll nodes gpu.example.com -l rack=r7 --until annotation=example.com/kernel=6.12
  dra-steward roll nodes --nodes node-7 --until condition=KernelIsCurrent`,
		RunE: func(c *cobra.Command, args []string) error {
			o.changed = c.Flags().Changed
			return o.run(c.Context(), streams, args)
		},
	}
	o.addFlags(c)
	o.addSteering(c)
	f := c.Flags()
	f.StringVar(&o.until, "until", "", "what the node has when the work is done: condition=TYPE or annotation=KEY=VALUE")
	f.StringVar(&o.command, "command", "", "command that does the work, run by the shell with the node in $NODE; needs --wait")
	return c
}

func listFormats() []string { return []string{"text", "wide", "name"} }

func (o *options) addFlags(c *cobra.Command) {
	o.Client.AddFlags(c)
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "name of the roll (default: derived from driver, pods and nodes, so that the same command finds it)")
	f.StringSliceVar(&o.nodes, "nodes", nil, "only these nodes (repeatable, or separated by commas)")
	f.StringVarP(&o.nodeLabels, "node-selector", "l", "", "only nodes with these labels, such as rack=r7")
	f.Int32Var(&o.atATime, "at-a-time", 1, "maximum number of nodes processed at a time (1 to 32)")
	f.StringVar(&o.perLabel, "per-label", "", "count --at-a-time for each value of this label of nodes, such as topology.kubernetes.io/zone")
	f.Int32Var(&o.canary, "canary", 0, "wait for --continue after this number of nodes")
	f.StringVar(&o.proof.Namespace, "proof-namespace", "", "namespace of a pod with one device that must succeed on each node")
	f.StringVar(&o.proof.DeviceClassName, "proof-class", "", "DeviceClass that the pod of --proof-namespace requests")
	f.StringVar(&o.proof.Image, "proof-image", "", "image of the pod of --proof-namespace")
	f.StringArrayVar(&o.proof.Command, "proof-command", nil, "one argument of the command of the pod of --proof-namespace (repeatable; default: the image's)")
	o.addTimeouts(f)
	f.Int32Var(&o.Rate, "rate", v1alpha1.DrainRate, "maximum number of evictions per minute and node (1 to 6000)")
	f.StringArrayVar(&o.Windows, "window", nil, `evict pods, and begin nodes, only in this time of the week, such as "Sat,Sun 22:00-06:00 Europe/Berlin"; can be repeated; "" removes all`)
	f.BoolVar(&o.EvictBare, "evict-pods-without-controller", false, "also evict pods without a controller that replaces them")
	f.BoolVar(&o.WithPartitions, "with-partitions", false, "also drain the devices that share counters with these")
	f.StringVar(&o.Acknowledged, "acknowledge", "", `maximum impact of the nodes that are drained at a time, above the thresholds of the site: "pods<=40"`)
	f.BoolVar(&o.wait, "wait", false, "show the progress and wait until the roll is complete or held")
	cmdutil.DurationVar(f, &o.timeout, "timeout", 0, "with --wait: maximum time to wait; 0 = no limit")
	o.dry.AddFlag(c, "create nothing; show the order of the nodes, which pods leave, where they land, and how long it takes by previous rolls")
	cmdutil.CompleteWith(c, "nodes", o.CompleteKind("node"))
	cmdutil.CompleteWith(c, "proof-class", o.CompleteKind("class"))
	cmdutil.CompleteWith(c, "proof-namespace", o.CompleteKind("namespace"))
}

// steps are those of a node that have a timeout.
func steps() []string { return []string{"drain", "driver", "work", "proof"} }

func (o *options) addTimeouts(f *pflag.FlagSet) {
	for i, step := range steps() {
		cmdutil.DurationVar(f, &o.timeouts[i], step+"-timeout", 0, "maximum duration of the step "+step+" on one node; after that, the node fails; 0 = the default")
	}
}

func (o *options) addSteering(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.list, "list", false, "show all rolls")
	f.StringVarP(&o.output, "output", "o", "text", "with --list: output format: "+strings.Join(cmdutil.OutputFormats(listFormats()...), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "with --list: leave out the headers of the columns")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(listFormats()...))
	f.BoolVar(&o.proceed, "continue", false, "try the nodes again that have failed, or continue after the canary")
	c.ValidArgsFunction = o.complete
	f.StringArrayVar(&o.skip, "skip", nil, "leave this node out and take its cordon back (repeatable)")
	f.BoolVar(&o.pause, "pause", false, "begin no further node and evict no further pods")
	f.BoolVar(&o.resume, "resume", false, "undo --pause and --undo")
	f.BoolVar(&o.undo, "undo", false, "remove all cordons of the roll, and begin no further node")
	f.BoolVar(&o.remove, "delete", false, "delete the roll; the controller takes its cordons back")
	c.MarkFlagsMutuallyExclusive("list", "continue", "skip", "pause", "resume", "undo", "delete", "dry-run")
}

// complete offers drivers, and rolls that exist.
func (o *options) complete(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := o.CompleteKind("driver")(c, args, typed)
	rolls, _ := o.CompleteKind("roll")(c, args, typed)
	return append(names, rolls...), directive
}

func (o *options) run(ctx context.Context, streams cmdutil.Streams, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	if err := cmdutil.CheckOutput(o.output, listFormats()...); err != nil {
		return err
	}
	config, err := o.Client.Config(streams)
	if err != nil {
		return err
	}
	client, err := ownclient.NewRollClient(config)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		return o.listRolls(ctx, streams, client)
	case o.steers():
		return o.steer(ctx, streams, client, args[0])
	}
	wanted, err := o.wanted(args)
	if err != nil {
		return err
	}
	if o.dry != "" {
		return o.plan(ctx, streams, client, wanted)
	}
	made, err := o.create(ctx, streams, client, wanted)
	if err != nil {
		return err
	}
	if !o.wait {
		printable.Printf(streams.Out, "to follow it: kubectl get deviceroll %s -w, or %s roll --list\n", made.Name, streams.Program())
		return nil
	}
	return o.follow(ctx, streams, client, made.Name)
}

// check refuses arguments and flags that make no sense.
func (o *options) check(args []string) error {
	switch {
	case o.list:
		return nil
	case o.output != "text" || o.noHeaders:
		return errors.New("--output, --no-headers: add --list")
	case len(args) > 1:
		return fmt.Errorf("one driver or roll at a time, not %s", strings.Join(args, " "))
	case len(args) == 0 && (!o.work || o.steers()):
		return errors.New("name the driver, such as gpu.example.com, or a roll; see 'dra-steward roll --help'")
	case o.timeout != 0 && !o.wait, o.command != "" && !o.wait:
		return errors.New("--timeout, --command: add --wait")
	case o.command != "" && o.until != "":
		return errors.New("--command, --until: one of them says when the work is done")
	case o.waitFor != "" && o.waitFor != "operator":
		return errors.New("--wait-for: must be operator")
	}
	if ignored := slices.DeleteFunc(settings(), func(flag string) bool { return !o.changed(flag) }); o.steers() && len(ignored) > 0 {
		return fmt.Errorf("--%s: not with --continue, --skip, --pause, --resume, --undo or --delete, which change no other settings; "+
			"to change a roll, repeat the command that created it with the new values", strings.Join(ignored, ", --"))
	}
	return nil
}

// steers reports whether the command changes how an existing roll goes on.
func (o *options) steers() bool {
	return o.proceed || o.pause || o.resume || o.undo || o.remove || len(o.skip) > 0
}

// settings are the flags that describe a roll.
func settings() []string {
	flags := []string{"name", "nodes", "node-selector", "driver-selector", "wait-for", "until", "at-a-time", "per-label", "canary",
		"proof-namespace", "proof-class", "proof-image", "proof-command",
		"rate", "window", "evict-pods-without-controller", "with-partitions", "acknowledge"}
	for _, step := range steps() {
		flags = append(flags, step+"-timeout")
	}
	return flags
}
