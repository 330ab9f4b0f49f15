// Package drain is the command that creates, lists, follows and cancels DeviceDrains.
package drain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/why"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// drainOptions are the flags of drain.
type drainOptions struct {
	clusterwrite.Drain
	selector, driver, pool      string
	name                        string
	read                        clusterread.SnapshotOptions
	faults                      clusterread.FaultCheck
	wait                        bool
	dry                         cmdutil.DryRun
	list, pause, resume, cancel bool
	timeout                     time.Duration
	changed                     func(flag string) bool
	key, value, reason, ticket  string
	labels, output              string
	noHeaders, watch            bool
}

// Command returns the command drain.
func Command(streams cmdutil.Streams) *cobra.Command {
	o := drainOptions{}
	c := &cobra.Command{
		Use:   "drain TARGET...",
		Short: "Take devices out of use: cordon them and evict their pods within PodDisruptionBudgets",
		Long: `drain creates a DeviceDrain. The controller cordons the devices with NoSchedule
DeviceTaintRules and evicts the pods that hold them through the Eviction API, at a rate. The
drain is complete when no claim holds any of the devices. The same command again resumes a
paused drain, and otherwise shows the progress.

TARGET is a device, in full (DRIVER/POOL/DEVICE) or by the unique end of its name, or what the
devices belong to: node/NAME, driver/NAME, claim/NAME or pod/NAME, also written TYPE NAME. Or
select devices by labels of their nodes, or by a CEL expression as in the requests of claims.
drain resolves the devices into names once.

Exit codes: 0 done (with --wait: drained), 1 blocked, failed or timed out, 2 the command
failed.`,
		Example: `  dra-steward drain gpu.example.com/node-1/gpu-3 --wait
  dra-steward drain --driver gpu.example.com --selector 'device.attributes["gpu.example.com"].model == "A100"' --dry-run
  dra-steward drain node-1/gpu-3 --deadline 2h --deadline-action Delete --rate 6
  dra-steward drain node/node-7 --dry-run
  dra-steward drain --list -w
  dra-steward drain --cancel gpu-3-5f1d2a9c`,
		RunE: func(c *cobra.Command, args []string) error {
			o.changed = c.Flags().Changed
			return runDrain(c.Context(), streams, o, args)
		},
	}
	o.addFlags(c)
	return c
}

func (o *drainOptions) addFlags(c *cobra.Command) {
	o.read.Client.AddFlags(c)
	o.read.Complete(c)
	c.ValidArgsFunction = o.complete
	f := c.Flags()
	f.StringVar(&o.selector, "selector", "", "select published devices by this CEL expression instead of names")
	f.StringVarP(&o.labels, "node-selector", "l", "", "select the devices of the nodes with these labels, such as rack=r7")
	f.StringVar(&o.driver, "driver", "", "with or without --selector: only devices of this driver")
	f.StringVar(&o.pool, "pool", "", "with or without --selector: only devices of this pool")
	f.StringVar(&o.name, "name", "", "name of the drain (default: derived from the devices, so that the same command finds it)")
	f.Int32Var(&o.Rate, "rate", v1alpha1.DrainRate, "maximum number of evictions per minute (1 to 6000)")
	f.Int32Var(&o.PerNamespace, "max-per-namespace", 0, "maximum number of pods per namespace that are being evicted at a time; 0 = no limit")
	f.Int32Var(&o.PerNode, "max-per-node", 0, "maximum number of pods per node that are being evicted at a time; 0 = no limit")
	f.StringSliceVar(&o.Order, "order", nil, "eviction order: Priority, OwnerSpread (default: both)")
	f.StringVar(&o.Via, "via", "", "how pods are asked to leave: Eviction (default), or EvictionRequest, which falls back to Eviction if the cluster does not process it")
	cmdutil.DurationVar(f, &o.Deadline, "deadline", 0, "maximum duration of the drain; 0 = no limit")
	f.StringVar(&o.Action, "deadline-action", string(v1alpha1.DeadlineKeep), "action at the deadline: Keep (stop evictions), Delete (delete pods regardless of budgets) or Fail")
	f.StringVar(&o.Acknowledged, "acknowledge", "", `maximum impact of the drain, above the thresholds of the site: "pods<=120,namespaces<=4"`)
	f.StringVar(&o.key, "cordon-key", "", "key of the cordon taint (default "+v1alpha1.DrainTaintKey+")")
	f.StringVar(&o.value, "cordon-value", "", "value of the cordon taint (default: the name of the drain)")
	f.StringArrayVar(&o.Windows, "window", nil, `evict pods only in this time of the week, such as "Sat,Sun 22:00-06:00 Europe/Berlin"; can be repeated; "" removes all`)
	f.BoolVar(&o.EvictBare, "evict-pods-without-controller", false, "also evict pods without a controller that replaces them")
	f.BoolVar(&o.WithPartitions, "with-partitions", false, "also drain the devices that share counters with these, such as the other partitions of a GPU")
	f.BoolVar(&o.WithoutCordon, "without-cordon", false, "continue if DeviceTaintRules are not served, without keeping new pods off the devices")
	f.StringVar(&o.reason, "reason", "", "why the devices are drained, for dra-steward history; you are recorded as the owner")
	f.StringVar(&o.ticket, "ticket", "", "ticket of the work, for dra-steward history")
	o.faults.AddFlags(f)
	f.BoolVar(&o.Uncordon, "uncordon", false, "remove the cordon when the devices are drained")
	f.BoolVar(&o.wait, "wait", false, "show the progress and wait until the devices are drained")
	cmdutil.DurationVar(f, &o.timeout, "timeout", 0, "with --wait: maximum time to wait; 0 = no limit")
	o.dry.AddFlag(c, "create nothing; show which pods would be evicted, in which order, and what blocks")
	f.BoolVar(&o.list, "list", false, "show all drains")
	f.StringVarP(&o.output, "output", "o", "text", "with --list: output format: "+strings.Join(cmdutil.OutputFormats(listFormats()...), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "with --list: print no header")
	f.BoolVarP(&o.watch, "watch", "w", false, "with --list: after the drains, print those that change")
	f.BoolVar(&o.pause, "pause", false, "pause the named drains: stop evictions, keep the cordon")
	f.BoolVar(&o.resume, "resume", false, "resume the named drains")
	f.BoolVar(&o.cancel, "cancel", false, "delete the named drains; the controller removes their cordons")
	c.MarkFlagsMutuallyExclusive("list", "pause", "resume", "cancel", "dry-run")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(listFormats()...))
	cmdutil.CompleteWith(c, "driver", o.read.CompleteKind("driver"))
	cmdutil.CompleteWith(c, "pool", o.read.CompleteKind("pool"))
	cmdutil.Complete(c, "deadline-action", []string{string(v1alpha1.DeadlineKeep), string(v1alpha1.DeadlineDelete), string(v1alpha1.DeadlineFail)})
	cmdutil.Complete(c, "via", []string{string(v1alpha1.ViaEviction), string(v1alpha1.ViaEvictionRequest)})
	cmdutil.Complete(c, "order", []string{string(v1alpha1.OrderPriority), string(v1alpha1.OrderOwnerSpread)})
}

// check refuses flags that would change nothing.
func (o drainOptions) check() error {
	switch {
	case o.watch && !o.list:
		return errors.New("--watch: add --list, or follow one drain with --wait")
	case o.changed("output") && !o.list:
		return errors.New("--output: only --list has formats; kubectl get devicedrain NAME -o yaml shows one drain")
	case o.noHeaders && !o.list:
		return errors.New("--no-headers: only --list has a header")
	case o.timeout != 0 && !o.wait:
		return errors.New("--timeout: add --wait")
	case o.changed("deadline-action") && o.Deadline == 0:
		return errors.New("--deadline-action: add --deadline; without one, there is no time for the action")
	case selectsLabels(o.selector):
		return fmt.Errorf("--selector %s: must be a CEL expression about devices; for the labels of nodes, use '%s'", o.selector, why.Command("dra-steward", "drain", "-l", o.selector))
	}
	if err := (clusterwrite.Taint{Reason: &o.reason, Ticket: &o.ticket}).Check(); err != nil {
		return err
	}
	return o.SetWindows(&v1alpha1.DeviceDrainSpec{})
}

func runDrain(ctx context.Context, streams cmdutil.Streams, o drainOptions, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.watch {
		streams = streams.Once()
	}
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return err
	}
	client, err := ownclient.NewDrainClient(config)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		return o.listDrains(ctx, streams, client)
	case o.pause || o.resume || o.cancel:
		if err := o.steer(ctx, streams, client, args); err != nil || !o.cancel {
			return err
		}
		checkLifted(ctx, streams, config, args)
		return nil
	}
	return o.drain(ctx, streams, config, client, args)
}

// drain makes the drain, or goes on with it.
func (o drainOptions) drain(ctx context.Context, streams cmdutil.Streams, config *rest.Config, client *ownclient.DrainClient, args []string) error {
	args = taints.Arguments(args)
	o.read.Need(args...)
	o.read.Nodes = o.labels != ""
	found, err := o.read.Read(ctx, streams)
	if err != nil {
		return err
	}
	wanted, err := o.wanted(streams, found, args)
	if err != nil {
		return err
	}
	if err := o.faults.Check(ctx, streams, config, faults.RuleExists, o.dry != ""); err != nil {
		return err
	}
	if o.dry != "" {
		return o.plan(ctx, streams, config, client, found.View, wanted)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := clusterwrite.Note(ctx, typed, wanted, o.reason, o.ticket); err != nil {
		return err
	}
	d, err := o.createOrResume(ctx, streams, client, wanted)
	if err != nil {
		return err
	}
	if !o.wait {
		printable.Printf(streams.Out, "to follow it: kubectl get devicedrain %s -w, or kubectl wait --for=condition=Drained devicedrain/%[1]s --timeout=1h\n", d.Name)
		return nil
	}
	return o.follow(ctx, streams, client, d.Name)
}

// errNoDrains says that a command needs names of drains.
var errNoDrains = errors.New("name the drains, as dra-steward drain --list shows them")
