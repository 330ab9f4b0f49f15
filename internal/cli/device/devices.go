// Package device has the commands about devices: devices, why, impact, taint and untaint.
package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// devicesOptions are the flags of devices.
type devicesOptions struct {
	clusterread.SnapshotOptions
	output, labels, node, heldBy    string
	noHeaders, watch, free, tainted bool
}

func deviceFormats() []string { return []string{"text", "wide", "name"} }

// DevicesCommand returns the command devices.
func DevicesCommand(streams cmdutil.Streams) *cobra.Command {
	o := devicesOptions{SnapshotOptions: clusterread.SnapshotOptions{Source: clusterread.Source{NoAttributes: true}, Claims: true}}
	c := &cobra.Command{
		Use:   "devices [TARGET...]",
		Short: "Show the devices with their taints, patched values and claims, and their origin",
		Long: `devices shows the devices of the ResourceSlices with their taints (from the driver and from
DeviceTaintRules), their patched attributes and capacities (with the winning patch and the
published value), and the claims that they are allocated to; the last line counts them. It
reads the devices that your permissions let you read, or files (--from-files).

` + targetHelp,
		Example: `  dra-steward devices -o wide
  dra-steward devices node/node-1
  dra-steward devices driver/gpu.example.com --free
  dra-steward devices --held-by pod/train-0 -n team-a -o name
  dra-steward devices -l rack=r7 --tainted -w
  kubectl get resourceslices,devicetaintrules -o yaml | dra-steward devices --from-files -
  dra-steward devices --from-files slices.yaml,patch.yaml -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := cmdutil.CheckOutput(o.output, deviceFormats()...); err != nil {
				return err
			}
			args = taints.Arguments(args)
			if o.watch {
				return o.follow(c.Context(), streams.Once(), args)
			}
			found, err := o.find(c.Context(), streams, args)
			if err != nil {
				return err
			}
			return o.write(streams.Out, found)
		},
	}
	o.flags(c)
	return c
}

func (o *devicesOptions) flags(c *cobra.Command) {
	o.AddFlags(c)
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(deviceFormats()...), ", "))
	f.StringVarP(&o.labels, "node-selector", "l", "", "only devices of the nodes with these labels, such as rack=r7")
	f.StringVar(&o.node, "node", "", "only devices of this node")
	f.StringVar(&o.heldBy, "held-by", "", "only devices that claim/NAME, pod/NAME or namespace/NAME holds")
	f.BoolVar(&o.free, "free", false, "only devices that a claim can get, or a share of them")
	f.BoolVar(&o.tainted, "tainted", false, "only devices with a taint")
	f.BoolVarP(&o.Everywhere, "all-namespaces", "A", false, "fail if the claims of all namespaces cannot be read, instead of showing those of one namespace")
	f.BoolVar(&o.noHeaders, "no-headers", false, "print neither the header nor the line of totals")
	f.BoolVarP(&o.watch, "watch", "w", false, "after the devices, print those that change")
	c.MarkFlagsMutuallyExclusive("free", "held-by")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(deviceFormats()...))
	cmdutil.CompleteWith(c, "node", o.CompleteKind("node"))
	cmdutil.CompleteWith(c, "held-by", o.CompleteHolders)
}

// find reads the devices that are asked for.
func (o devicesOptions) find(ctx context.Context, streams cmdutil.Streams, args []string) ([]deviceReport, error) {
	o.Need(args...)
	o.Need(o.heldBy)
	o.Nodes = o.labels != ""
	found, err := o.Read(ctx, streams)
	if err != nil {
		return nil, err
	}
	return o.choose(found, args)
}

// follow writes the devices, and then those that change.
func (o devicesOptions) follow(ctx context.Context, streams cmdutil.Streams, args []string) error {
	if o.Files != nil {
		return clusterread.ErrFilesWatched
	}
	o.Watcher = clusterread.NewWatcher(streams.Err)
	return cmdutil.Watch(ctx, streams, o.Watcher.Changed(), func(ctx context.Context) ([]string, error) {
		all, err := o.find(ctx, streams, args)
		if err != nil {
			return nil, err
		}
		if !cmdutil.HasRows(o.output, deviceFormats()...) {
			return cmdutil.Documents(o.output, all)
		}
		lines, err := cmdutil.Lines(func(out io.Writer) error { return o.write(out, all) })
		if err != nil || o.output != "text" && o.output != "wide" {
			return lines, err
		}
		return byDevice(lines, all, !o.noHeaders), nil
	})
}

// byDevice joins the lines of a device, so that a taint that is removed is a change, too.
func byDevice(lines []string, all []deviceReport, headers bool) (parts []string) {
	if headers {
		parts, lines = lines[:1:1], lines[1:]
	}
	for _, r := range all {
		n := max(1, len(r.Taints)+len(r.Patched))
		parts, lines = append(parts, strings.Join(lines[:n], "")), lines[n:]
	}
	return append(parts, lines...)
}

func (o devicesOptions) write(out io.Writer, all []deviceReport) error {
	switch o.output {
	case "text", "wide":
		return writeDevicesText(out, all, o.output == "wide", !o.noHeaders)
	case "name":
		for _, r := range all {
			printable.Printf(out, "%s/%s/%s\n", r.Driver, r.Pool, r.Device)
		}
		return nil
	}
	return cmdutil.PrintTable(out, o.output, all, !o.noHeaders)
}

// choose keeps the devices that arguments and flags ask for.
func (o devicesOptions) choose(l *clusterread.Snapshot, args []string) ([]deviceReport, error) {
	namespace, err := o.Client.Namespace()
	if err != nil {
		return nil, err
	}
	scope := l.Scope(namespace)
	var wanted [][]taints.Target // a device is in one of each
	if len(args) > 0 {
		var any []taints.Target
		for _, arg := range args {
			of, err := scope.Resolve(arg)
			if err != nil {
				return nil, err
			}
			any = append(any, of...)
		}
		wanted = append(wanted, any)
	}
	if o.node != "" {
		of, err := scope.OfNodes(o.node)
		if err != nil {
			return nil, fmt.Errorf("--node: %w", err)
		}
		wanted = append(wanted, of)
	}
	if o.labels != "" {
		nodes, err := clusterread.NodesWith(l.Nodes, o.labels)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		of, err := scope.OfNodes(nodes...)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		wanted = append(wanted, of)
	}
	holder, err := o.holder(scope)
	if err != nil {
		return nil, err
	}
	if holder.targets != nil {
		wanted = append(wanted, holder.targets)
	}
	return filter(reportDevices(l), wanted, func(r deviceReport) bool {
		return (!o.free || !r.Full) && (!o.tainted || len(r.Taints) > 0) && holder.has(r)
	}), nil
}

// A holder is who --held-by names: targets, or a namespace.
type holder struct {
	targets   []taints.Target
	namespace string
}

func (h holder) has(r deviceReport) bool {
	if h.namespace == "" {
		return true
	}
	for _, by := range slices.Concat(r.AllocatedTo, r.ObservedBy) {
		if by.Namespace == h.namespace {
			return true
		}
	}
	return false
}

func (o devicesOptions) holder(scope taints.Scope) (h holder, err error) {
	if o.heldBy == "" {
		return h, nil
	}
	kind, name, _ := strings.Cut(o.heldBy, "/")
	switch {
	case name == "":
		err = errors.New("must be claim/NAME, pod/NAME or namespace/NAME")
	case kind == "namespace" || kind == "ns":
		h.namespace = name
	case taints.Kinds()[kind] == "claim" || taints.Kinds()[kind] == "pod":
		h.targets, err = scope.Resolve(o.heldBy)
	default:
		err = fmt.Errorf("%q: must be claim/NAME, pod/NAME or namespace/NAME", o.heldBy)
	}
	if err != nil {
		err = fmt.Errorf("--held-by: %w", err)
	}
	return h, err
}

// filter keeps devices that are in one target of each list.
func filter(all []deviceReport, wanted [][]taints.Target, keep func(deviceReport) bool) []deviceReport {
	kept := []deviceReport{}
	for _, r := range all {
		in := keep(r)
		for _, any := range wanted {
			in = in && r.inOne(any)
		}
		if in {
			kept = append(kept, r)
		}
	}
	return kept
}
