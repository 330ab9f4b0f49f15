package capacity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// fitOptions are the flags of fit.
type fitOptions struct {
	clusterread.SnapshotOptions
	file, output, drained  string
	replicas               int
	patched, withoutTaints bool
	noHeaders              bool
}

// maxNamed is how many nodes the text names.
const maxNamed = 8

func fitFormats() []string { return []string{"text"} }

// FitCommand returns the command fit.
func FitCommand(streams cmdutil.Streams) *cobra.Command {
	o := fitOptions{SnapshotOptions: clusterread.SnapshotOptions{Claims: true, Nodes: true, Gates: true, AllPods: true}}
	c := &cobra.Command{
		Use:   "fit -f FILE",
		Short: "Show how many pods or claims of a manifest fit now, on which nodes, and what limits the next",
		Long: `fit counts how many pods fit now. FILE has a Pod, a Deployment, ReplicaSet, StatefulSet, Job or
CronJob, with its ResourceClaimTemplates in the same file or in the cluster; or a
ResourceClaimTemplate or ResourceClaim alone, for which each pod uses one like it and nothing
else. fit creates nothing.

It places one pod after the other with kube-scheduler's own allocator, until no node has room
for the next. For each node, fit checks node selector and affinity, taints, unschedulable, host ports, and
requests of cpu, memory, pods and extended resources, bound volumes, topology spread, and affinity to pods. Where the choice of nodes decides, the
answer is an interval from the worst to the best.

Exit codes: 0 all replicas fit, or --replicas is not set; 1 they do not, only with a good
choice of nodes; 2 the command failed; 3 unknown: what decides is not checked, or the search for
devices takes too long.`,
		Example: `  dra-steward fit -f template.yaml
  dra-steward fit -f deployment.yaml --replicas 20
  dra-steward fit -f template.yaml --if-drained node/node-1
  dra-steward fit -f template.yaml --if-drained devicedrain/firmware
  dra-steward fit -f pod.yaml --without-taints -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), streams) },
	}
	o.AddFlags(c)
	f := c.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the workload; - is standard input")
	f.IntVar(&o.replicas, "replicas", 0, "how many pods are to fit")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(fitFormats()...), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the headers of the columns")
	f.BoolVar(&o.patched, "patched", false, "apply ResourceSlicePatches to the devices, as dra-steward-scheduler does")
	f.BoolVar(&o.withoutTaints, "without-taints", false, "count as if no device had a taint")
	f.StringVar(&o.drained, "if-drained", "", "count as if these devices were drained: DRIVER/POOL/DEVICE, DRIVER/POOL, node/NAME, driver/NAME, claim/NAME or pod/NAME; or as if the DeviceDrain devicedrain/NAME had ended")
	o.Scheduler.AddFlags(f)
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(fitFormats()...))
	cmdutil.CompleteWith(c, "if-drained", o.CompleteTargets)
	return c
}

// fitReport is the answer as -o json writes it.
type fitReport struct {
	// Subject is what is counted.
	Subject string `json:"subject"`
	capacity.Room
	// Replicas are those that are asked for, AllFit whether there is room for them with any
	// choice of nodes.
	Replicas int   `json:"replicas,omitempty"`
	AllFit   *bool `json:"allFit,omitempty"`
	// FeatureGates are those of kube-scheduler that the allocator used.
	FeatureGates gates.Used `json:"featureGates"`
}

func (o *fitOptions) run(ctx context.Context, streams cmdutil.Streams) error {
	if err := o.check(); err != nil {
		return err
	}
	namespace, err := o.Client.Namespace()
	if err != nil {
		return err
	}
	asked, err := readWorkload(streams, o.file, namespace)
	if err != nil {
		return err
	}
	o.Need(o.drained)
	found, err := o.Read(ctx, streams)
	if err != nil {
		return err
	}
	leaving, err := o.drainedTargets(ctx, streams, found, namespace)
	if err != nil {
		return fmt.Errorf("--if-drained: %w", err)
	}
	question := o.question(found, asked, leaving)
	room, err := cmdutil.While(streams, "placing the pods", func() (capacity.Room, error) { return question.Room(ctx) })
	if err != nil {
		return err
	}
	report := fitReport{Subject: asked.subject, Room: room, Replicas: o.replicas, FeatureGates: question.Cluster.Gates.Used()}
	if o.replicas > 0 {
		report.AllFit = new(room.Least >= o.replicas && len(room.Unchecked) == 0)
	}
	if err := o.write(streams.Out, report); err != nil {
		return err
	}
	return report.exit()
}

// exit is an error if the replicas do not fit, or if that is unknown.
func (r fitReport) exit() error {
	switch {
	case r.AllFit != nil && !*r.AllFit && r.Most < r.Replicas && len(r.Slow)+len(r.Unchecked) == 0:
		return cmdutil.ErrFindings
	case len(r.Unchecked) > 0 || r.AllFit != nil && !*r.AllFit && len(r.Slow) > 0:
		return cmdutil.ErrUnknown
	case r.AllFit != nil && !*r.AllFit:
		return cmdutil.ErrFindings
	}
	return nil
}

func (o *fitOptions) check() error {
	switch {
	case o.file == "":
		return errors.New("-f FILE is missing")
	case o.replicas < 0 || o.replicas > capacity.MaxPods:
		return fmt.Errorf("--replicas %d: must be 1 to %d", o.replicas, capacity.MaxPods)
	case o.file == "-" && slices.Contains(o.Files, "-"):
		return errors.New("-f and --from-files cannot both be standard input")
	}
	return cmdutil.CheckOutput(o.output, fitFormats()...)
}

// question is what is asked of the cluster, of which some devices are drained.
func (o *fitOptions) question(l *clusterread.Snapshot, asked workload, drained []taints.Target) capacity.Question {
	cluster := l.Placement(o.patched)
	cluster.Templates = slices.Concat(l.Templates, asked.Templates)
	for _, claim := range asked.Claims {
		if !slices.ContainsFunc(cluster.Claims, func(c *resourceapi.ResourceClaim) bool {
			return c.Name == claim.Name && c.Namespace == claim.Namespace
		}) {
			cluster.Claims = append(cluster.Claims[:len(cluster.Claims):len(cluster.Claims)], claim)
		}
	}
	if l.PartialClaims {
		cluster.Notes = append(cluster.Notes, "partial view: fewer can fit, because not all claims could be read")
	}
	if o.withoutTaints {
		cluster.Gates.Features.DeviceTaints = false
	}
	q := capacity.Question{Cluster: cluster, Pod: asked.pod, Unordered: l.Minor > 0 && l.Minor < 36}
	if len(drained) == 0 {
		return q
	}
	change := q.Cluster.Drained(taints.Cordons(drained), taints.In(drained))
	q.Cluster, q.Leaving = change.After, change.Leaving
	return q
}

func (o *fitOptions) write(out io.Writer, r fitReport) error {
	if o.output != "text" {
		return cmdutil.PrintTable(out, o.output, r, !o.noHeaders)
	}
	printable.Printf(out, "%s: %s\n", r.Subject, r.headline())
	if len(r.Nodes) > 0 {
		w := printable.NewTable(out, 3)
		if !o.noHeaders {
			printable.Printf(w, "NODE\tPODS\n")
		}
		for _, n := range r.Nodes {
			printable.Printf(w, "%s\t%d\n", n.Node, n.Pods)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if r.Limit != nil {
		printable.Printf(out, "no room for another pod: %s\n", r.Limit.Message)
	}
	if len(r.Slow) > 0 {
		printable.Printf(out, "not searched to the end: %s\n", plural.List(r.Slow, maxNamed, len(r.Slow)))
	}
	if len(r.Unchecked) > 0 {
		printable.Printf(out, "unknown: not checked: %s\n", strings.Join(r.Unchecked, ", "))
	}
	for _, note := range r.Notes {
		printable.Printf(out, "note: %s\n", note)
	}
	if o.Files == nil {
		printable.Printf(out, "feature gates: %s\n", r.FeatureGates.Source)
	}
	return nil
}

// headline is the answer in one sentence.
func (r fitReport) headline() (text string) {
	switch {
	case r.Bounded || len(r.Slow) > 0:
		text = fmt.Sprintf("%d or more pods fit", r.Least)
	case r.Exact:
		text = plural.Of(r.Most, "pod") + " fit"
		if r.Most == 1 {
			text += "s"
		}
	case r.Proven:
		text = fmt.Sprintf("%d to %d pods fit, depending on the nodes that kube-scheduler selects", r.Least, r.Most)
	case r.Least == r.Most:
		text = fmt.Sprintf("%d pods fit, in each of %s of nodes that were tried", r.Most, plural.Of(r.Orders, "order"))
	default:
		text = fmt.Sprintf("%d to %d pods fit, in %s of nodes that were tried", r.Least, r.Most, plural.Of(r.Orders, "order"))
	}
	switch {
	case r.AllFit == nil:
	case *r.AllFit:
		text += fmt.Sprintf("; %s fit", plural.Of(r.Replicas, "replica"))
	case r.Most >= r.Replicas:
		text += fmt.Sprintf("; %s fit only with a good choice of nodes", plural.Of(r.Replicas, "replica"))
	case len(r.Slow) > 0:
		text += fmt.Sprintf("; it is not known whether %s fit", plural.Of(r.Replicas, "replica"))
	default:
		text += fmt.Sprintf("; %s do not fit", plural.Of(r.Replicas, "replica"))
	}
	return text
}
