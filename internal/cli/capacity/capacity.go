// Package capacity has the commands about how much is left: capacity and fit.
package capacity

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// capacityOptions are the flags of capacity.
type capacityOptions struct {
	clusterread.SnapshotOptions
	capacity.Scope
	release    clusterread.Release
	output, by string
	noHeaders  bool
	patched    bool
}

func formats() []string { return []string{"text", "wide", "name"} }

// CapacityCommand returns the command capacity.
func CapacityCommand(streams cmdutil.Streams) *cobra.Command {
	o := capacityOptions{SnapshotOptions: clusterread.SnapshotOptions{Claims: true, Nodes: true, Gates: true}}
	c := &cobra.Command{
		Use:   "capacity",
		Short: "Count the allocated and the allocatable devices, and the others by reason",
		Long: `capacity counts devices. Each one is in one column, the first that applies:

  HELD           a claim has it, or not even the smallest share of a shared device is left
  UNREACHABLE    its pool is incomplete or invalid, or its node is missing, not ready or
                 unschedulable
  PATCHED AWAY   a ResourceSlicePatch has taken it out of the class
  TAINTED        it has a taint with the effect NoSchedule or NoExecute
  EXCLUDED       it shares counters with devices that are held or counted as allocatable: of the
                 partitions of a GPU, the largest set that fits is counted
  UNKNOWN        it looks free, but you are not allowed to read all claims
  ALLOCATABLE    none of these

The last columns show how many claims for 1, 2, 4 and 8 of the devices fit now, each on one
node. "<=" marks an upper bound: the choice of kube-scheduler can make it less. They count
devices only, not the cpu and memory of pods, and no taint is tolerated. If the controller records
the history, a last line has the device-minutes lost to taints in the last 24 hours.

capacity reads the objects that your permissions let you read, or files (--from-files).`,
		Example: `  dra-steward capacity
  dra-steward capacity --class gpu --by node
  dra-steward capacity --driver gpu.example.com --by model -o wide
  dra-steward capacity --by namespace
  dra-steward capacity --class gpu -o jsonpath='{.total.allocatable}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), streams) },
	}
	o.AddFlags(c)
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(formats()...), ", "))
	f.StringVar(&o.Class, "class", "", "only devices that this DeviceClass selects")
	f.StringVar(&o.Driver, "driver", "", "only devices of this driver")
	f.StringVar(&o.by, "by", string(capacity.ByDriver), "rows: "+strings.Join(capacity.Bys(), ", "))
	f.BoolVar(&o.patched, "patched", false, "apply ResourceSlicePatches to the devices, as dra-steward-scheduler does")
	f.BoolVar(&o.noHeaders, "no-headers", false, "print only the rows")
	o.release.AddFlags(f)
	o.Scheduler.AddFlags(f)
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(formats()...))
	cmdutil.Complete(c, "by", capacity.Bys())
	cmdutil.CompleteWith(c, "class", o.CompleteKind("class"))
	cmdutil.CompleteWith(c, "driver", o.CompleteKind("driver"))
	return c
}

func (o *capacityOptions) run(ctx context.Context, streams cmdutil.Streams) error {
	if err := cmdutil.CheckOutput(o.output, formats()...); err != nil {
		return err
	}
	if !slices.Contains(capacity.Bys(), o.by) {
		return fmt.Errorf("--by %q: must be one of %s", o.by, strings.Join(capacity.Bys(), ", "))
	}
	found, err := o.Read(ctx, streams)
	if err != nil {
		return err
	}
	report, err := clusterOf(found, o.patched).Report(ctx, o.Scope, capacity.By(o.by))
	if err != nil {
		return err
	}
	report.TaintedMinutes = o.taken(ctx, streams, time.Now())
	return o.write(streams.Out, report)
}

// taken is how many device-minutes taints have taken of the devices in the last 24 hours, nil if that is not
// known: there is no history, or it cannot be read, or it does not say which devices a class selects.
func (o *capacityOptions) taken(ctx context.Context, streams cmdutil.Streams, now time.Time) *int {
	if o.Files != nil || o.Class != "" {
		return nil
	}
	store, err := o.History(ctx, streams, o.release, now)
	if err != nil {
		return nil
	}
	taken := store.Taken(now.Add(-24*time.Hour), now, func(r *history.Record) bool { return o.Driver == "" || r.Driver == o.Driver })
	minutes := int(taken.Minutes())
	return &minutes
}

// clusterOf is what capacity knows of a cluster.
func clusterOf(l *clusterread.Snapshot, patched bool) capacity.Cluster {
	return capacity.Cluster{View: l.View, Claims: l.Claims, Partial: l.PartialClaims, Nodes: l.Nodes, Patched: patched,
		IncompletePools: l.Before135, Gates: l.Gates, Notes: l.Notes}
}

func (o *capacityOptions) write(out io.Writer, r capacity.Inventory) error {
	switch {
	case o.output == "text" || o.output == "wide":
		return table{Inventory: r, wide: o.output == "wide", headers: !o.noHeaders, gates: o.Files == nil}.write(out)
	case o.output == "name":
		for _, row := range r.Rows {
			printable.Printf(out, "%s\n", nameOf(r.By, row.Name))
		}
		if r.By == capacity.ByNamespace { // which has holders, and no rows
			for _, h := range r.Holders {
				printable.Printf(out, "%s\n", nameOf(r.By, h.Namespace))
			}
		}
		return nil
	case r.By == capacity.ByNamespace && cmdutil.HasRows(o.output):
		return cmdutil.PrintTable(out, o.output, r.Holders, !o.noHeaders)
	case cmdutil.HasRows(o.output):
		return cmdutil.PrintTable(out, o.output, r.Rows, !o.noHeaders)
	}
	return cmdutil.Print(out, o.output, r)
}

// nameOf is the name of a row as kubectl writes it, or of a driver as our commands take it.
func nameOf(by capacity.By, name string) string {
	switch by {
	case capacity.ByNode:
		if name != capacity.SeveralNodes {
			return "node/" + name
		}
	case capacity.ByClass:
		return "deviceclass." + resourceapi.GroupName + "/" + name
	case capacity.ByNamespace:
		return "namespace/" + name
	case capacity.ByDriver:
		return "driver/" + name
	case capacity.ByPool, capacity.ByModel: // which have no kind
	}
	return name
}
