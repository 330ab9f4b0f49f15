package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// historyOptions are the flags of history.
type historyOptions struct {
	clusterread.SnapshotOptions
	release        clusterread.Release
	output, labels string
	since          time.Duration
	noHeaders      bool
}

// HistoryCommand returns the command history.
func HistoryCommand(streams cmdutil.Streams) *cobra.Command {
	o := historyOptions{}
	c := &cobra.Command{
		Use:   "history [TARGET...]",
		Short: "Show actions on devices, with author and reason, and their holders",
		Long: `history shows the taints, drains and reactions of devices in chronological order, with the claims
and pods that held the devices. The controller records each device that had a taint, a drain or a
reaction (controller.history.enabled): its last 8 holders and 16
entries, for 30 days. Without TARGET, history shows all of these devices.

` + targetHelp + `
Devices, claims and pods that no longer exist are found by their names in the records.

history reads ConfigMaps in the namespace of the release, or files (--from-files).`,
		Example: `  dra-steward history gpu.example.com/node-1/gpu-3
  dra-steward history node/node-1 --since 1d
  dra-steward history pod/train-0 -n team-a
  dra-steward history -l rack=r7 -o json
  kubectl get configmaps -n dra-steward -o yaml >all.yaml && dra-steward history --from-files all.yaml`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.since < 0:
				return errors.New("--since: must not be negative")
			case o.labels != "" && len(args) > 0:
				return errors.New("name a TARGET or set --node-selector, not both")
			}
			if err := cmdutil.CheckOutput(o.output, deviceFormats()...); err != nil {
				return err
			}
			return o.run(c.Context(), streams, taints.Arguments(args), time.Now())
		},
	}
	o.AddFlags(c)
	c.ValidArgsFunction = o.CompleteTargets
	f := c.Flags()
	o.release.AddFlags(f)
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(deviceFormats()...), ", "))
	f.StringVarP(&o.labels, "node-selector", "l", "", "only devices of the nodes with these labels, such as rack=r7")
	cmdutil.DurationVar(f, &o.since, "since", 0, "only what happened, or ended, within this time, such as 12h or 7d (default: all)")
	f.BoolVar(&o.noHeaders, "no-headers", false, "print neither the header nor the notes at the end")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(deviceFormats()...))
	return c
}

func (o historyOptions) run(ctx context.Context, streams cmdutil.Streams, args []string, now time.Time) error {
	store, err := o.History(ctx, streams, o.release, now)
	if err != nil {
		return err
	}
	keep, err := o.choose(ctx, streams, store, args)
	if err != nil {
		return err
	}
	since := time.Time{}
	if o.since > 0 {
		since = now.Add(-o.since)
	}
	found := []*history.Record{}
	for r := range store.Records {
		if r = r.After(since); keep(usage.DeviceID(r.DeviceName)) && len(r.Entries)+len(r.Holders) > 0 {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		printable.Printf(streams.Err, "no taint, drain or reaction is recorded; the records begin at %s\n", stamp(store.Since))
	}
	switch o.output {
	case "text", "wide":
		if len(found) == 0 {
			return nil
		}
		return o.write(streams.Out, store, found, since)
	case "name":
		for _, r := range found {
			printable.Printf(streams.Out, "%s\n", r.DeviceName)
		}
		return nil
	}
	return cmdutil.PrintTable(streams.Out, o.output, found, !o.noHeaders)
}

// choose finds the devices that are asked for.
func (o historyOptions) choose(ctx context.Context, streams cmdutil.Streams, store *history.Store, args []string) (keep func(usage.DeviceID) bool, _ error) {
	if len(args) == 0 && o.labels == "" {
		return func(usage.DeviceID) bool { return true }, nil
	}
	o.Need(args...)
	o.Nodes = o.labels != ""
	now, err := o.Read(ctx, streams)
	if err != nil {
		return nil, err
	}
	namespace, err := o.Client.Namespace()
	if err != nil {
		return nil, err
	}
	past := recorded{now.Scope(namespace), store}
	published := past.Names
	past.Names = func(yield func(usage.DeviceID) bool) {
		for r := range store.Records {
			if !yield(usage.DeviceID(r.DeviceName)) {
				return
			}
		}
		published(yield)
	}
	var found []taints.Target
	if o.labels != "" {
		nodes, err := clusterread.NodesWith(now.Nodes, o.labels)
		if err != nil {
			return nil, fmt.Errorf("--node-selector: %w", err)
		}
		for _, node := range nodes {
			args = append(args, "node/"+node)
		}
	}
	var failed []error
	for _, arg := range args {
		of, err := past.resolve(arg)
		if err != nil {
			failed = append(failed, err)
		}
		found = append(found, of...)
	}
	if len(failed) > 0 && (o.labels == "" || len(found) == 0) {
		return nil, errors.Join(failed...)
	}
	return taints.In(found), nil
}

// recorded is what names of targets can refer to, now and in records.
type recorded struct {
	taints.Scope
	store *history.Store
}

// resolve finds the devices of a target: those of now, and those of before.
func (s recorded) resolve(name string) ([]taints.Target, error) {
	found, err := s.Resolve(name)
	kind, rest, _ := strings.Cut(name, "/")
	var devices []v1alpha1.DeviceName
	switch taints.Kinds()[kind] {
	case "claim":
		devices = s.store.HeldBy(s.Namespace, rest, "")
	case "pod":
		devices = s.store.HeldBy(s.Namespace, "", rest)
	case "node":
		for r := range s.store.Records {
			if r.Node == rest {
				devices = append(devices, r.DeviceName)
			}
		}
	}
	if len(devices) == 0 {
		return found, err
	}
	if err != nil {
		found = nil
	}
	for _, device := range devices {
		found = append(found, taints.Target(device))
	}
	return found, nil
}

// A row is an event of a device.
type row struct {
	history.Event
	record *history.Record
}

// write writes the events of all devices in the order of time, and what is not known.
func (o historyOptions) write(out io.Writer, store *history.Store, found []*history.Record, since time.Time) error {
	var rows []row
	for _, r := range found {
		for _, e := range r.Timeline(since) {
			rows = append(rows, row{e, r})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return a.Time.Compare(b.Time) })
	table := printable.NewTable(out, 3)
	wide := o.output == "wide"
	line := func(time, device, node, what, by, why string) {
		cells := printable.Cells{time, device, node, what, by, why}
		if !wide {
			cells = slices.Delete(cells, 2, 3)
		}
		printable.Printf(table, "%s\n", cells)
	}
	if !o.noHeaders {
		line("TIME", "DEVICE", "NODE", "WHAT", "BY", "WHY")
	}
	for _, r := range rows {
		line(stamp(r.Time), r.record.String(), or(r.record.Node, "-"), r.What, or(r.By, "-"), or(r.Why, "-"))
	}
	if err := table.Flush(); err != nil || o.noHeaders {
		return err
	}
	for _, r := range found {
		for _, note := range r.Notes() {
			printable.Printf(out, "%s: %s\n", r.DeviceName, note)
		}
	}
	if cut := store.Cut(); cut.Devices > 0 {
		printable.Printf(out, "the history of %s was left out, because there is room for 10 MB; the last of them changed at %s\n", plural.Of(cut.Devices, "device"), stamp(cut.Until))
	}
	return nil
}

// stamp is a time as history shows it, "-" if it is not known.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
