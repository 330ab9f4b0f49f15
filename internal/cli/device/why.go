package device

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/foresight/why"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// whyOptions are the flags of why.
type whyOptions struct {
	clusterread.SnapshotOptions
	output  string
	patched bool
}

// WhyCommand returns the command why.
func WhyCommand(streams cmdutil.Streams) *cobra.Command {
	o := whyOptions{SnapshotOptions: clusterread.SnapshotOptions{Claims: true, Pods: true, Nodes: true, Waiting: true, Gates: true}}
	c := &cobra.Command{
		Use:   "why CLAIM|POD",
		Short: "Show why a claim, or the claims of a pod, have no devices",
		Long: `why shows the likely cause in the first line, and in the second what changes it, as a
command where one does. Then it lists, for each request of a ResourceClaim, the devices by the
first reason why they are not allocated: the class does not select them, their pool is
incomplete (no reason before Kubernetes 1.35), the pod cannot run on their node, a selector of
the request is false or fails, a taint is not tolerated (with its origin), another claim has
them (which one, if you are allowed to read it). kube-scheduler's own allocator gives the
verdict, and decides whether a change suffices.

If a pod is being deleted, why shows what keeps it from ending: its grace period is over, and
a driver of its claims is gone from the node.

CLAIM is claim/NAME, POD is pod/NAME; NAME alone is a claim, otherwise a pod. why reads the
objects that your permissions let you read, and reports the others; or it reads files
(--from-files). kube-scheduler uses devices as drivers publish them; --patched applies
ResourceSlicePatches, for a scheduler that does.

The allocator uses the feature gates of kube-scheduler: from its metrics, if you name them with
--scheduler-metrics; otherwise from the metrics of the API server; otherwise the defaults of its
version. The answer names the source.

A pod whose devices are free is placed by the rules of kube-scheduler: the cause is then the taint,
the cordon, the affinity or the like of the nodes with the devices.

Exit codes: 0 the pod runs, or has ended well, or the claim is allocated; 1 a cause is found; 2 the
command failed; 3 unknown: the cause cannot be told with what can be read.`,
		Example: `  dra-steward why pod/train-0 -n team-a
  dra-steward why claim/train -n team-a -o yaml
  kubectl get resourceslices,deviceclasses,devicetaintrules,resourceclaims,resourceclaimtemplates,nodes,pods,events,pvc,pv,csinodes,namespaces -A -o yaml |
    dra-steward why train -n team-a --from-files -`,
		Args: cobra.RangeArgs(1, 2), // TYPE/NAME or TYPE NAME
		RunE: func(c *cobra.Command, args []string) error {
			return explainWhy(c.Context(), streams, o, strings.Join(args, "/"))
		},
	}
	o.AddFlags(c)
	c.ValidArgsFunction = o.CompleteWaiting
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "output format: text (grouped by reason), wide (each device), name (of the claims), json, yaml, jsonpath=TEMPLATE or custom-columns=HEADER:PATH")
	f.BoolVar(&o.patched, "patched", false, "apply ResourceSlicePatches to the devices, as dra-steward-scheduler does")
	o.Scheduler.AddFlags(f)
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(whyFormats()...))
	return c
}

func whyFormats() []string { return []string{"text", "wide", "name"} }

func explainWhy(ctx context.Context, streams cmdutil.Streams, o whyOptions, argument string) error {
	if err := cmdutil.CheckOutput(o.output, whyFormats()...); err != nil {
		return err
	}
	defer limitMemory(whyMemory, 50*time.Millisecond)()
	found, err := o.Read(ctx, streams)
	if err != nil {
		return err
	}
	namespace, err := o.Client.Namespace()
	if err != nil {
		return err
	}
	claim, pod, err := found.Named(namespace, argument)
	if err != nil {
		return err
	}
	found.Notes = append(found.Notes, faultNotes(found, streams.Program())...)
	report, err := answer(ctx, streams, found, o, claim, pod)
	if err != nil {
		return err
	}
	switch o.output {
	case "name":
		writeNames(streams.Out, report)
	case "text", "wide":
		subject := "pod " + report.Namespace + "/" + report.Pod
		if claim != nil {
			subject = "claim " + report.Namespace + "/" + claim.Name
		}
		err = writeWhy(streams.Out, subject, report, o.output == "wide")
		if o.Files == nil || o.output == "wide" {
			printable.Printf(streams.Out, "feature gates: %s\n", report.FeatureGates.Source)
		}
	default:
		err = cmdutil.Print(streams.Out, o.output, report)
	}
	switch {
	case err != nil:
		return err
	case report.Cause != nil && report.Cause.Kind == why.Unknown:
		return cmdutil.ErrUnknown
	case report.Cause != nil || !report.Satisfied():
		return cmdutil.ErrFindings
	}
	return nil
}

// faultNotes say in a line which known faults kube-scheduler has, and name the rules that it
// takes for others.
func faultNotes(l *clusterread.Snapshot, program string) (notes []string) {
	version, known := l.Scheduler, "kube-scheduler is "+l.Scheduler
	if version == "" {
		version, known = l.Server, "the API server is "+l.Server+" (the version of kube-scheduler is unknown)"
	}
	if all := faults.OfScheduler(version); len(all) > 0 {
		notes = append(notes, fmt.Sprintf("%s, with known faults of kube-scheduler: %s; %s report explains them", known, faults.References(all), program))
	}
	return append(notes, faults.Rules(version, l.View.Rules())...)
}

// answer explains a claim with a pod that uses it, or a pod.
func answer(ctx context.Context, streams cmdutil.Streams, l *clusterread.Snapshot, o whyOptions, claim *resourceapi.ResourceClaim, pod *corev1.Pod) (why.Answer, error) {
	cluster := why.Cluster{
		View: l.View, Claims: l.Claims, Nodes: l.Nodes, Patched: o.patched, NoClasses: l.NoClasses, IncompletePools: l.Before135, Notes: l.Notes, Gates: l.Gates, Now: time.Now(),
		Surroundings: why.Surroundings{Pods: l.Pods, Events: l.Events, Templates: l.Templates, Groups: l.Groups, NoGroups: l.NoGroups,
			Namespaces: l.Namespaces, Storage: l.Storage, PartialPods: l.PartialPods, NoTemplates: l.NoTemplates},
	}
	cluster.Lift = func(rule *resourceapi.DeviceTaintRule) string { return streams.Called(lift(rule)) }
	if claim == nil {
		return cluster.ExplainPod(ctx, pod)
	}
	if users := l.UsersOf(claim); len(users) > 0 {
		pod = users[0]
	}
	return cluster.ExplainClaim(ctx, claim, pod)
}

// lift returns the command of dra-steward that ends the taint of a rule, empty for a rule
// that it has not created.
func lift(rule *resourceapi.DeviceTaintRule) string {
	if name, _ := drain.OwnerOf(rule); name != "" {
		return why.Command("dra-steward", "drain", "--cancel", name)
	}
	on := rule.Spec.DeviceSelector
	if rule.Labels[taints.ManagedBy] != taints.ManagedByTaint || on == nil || on.Driver == nil {
		return ""
	}
	target := taints.Target{Driver: *on.Driver, Pool: ptr.Deref(on.Pool, ""), Device: ptr.Deref(on.Device, "")}
	if rule.Name != taints.Name(target, rule.Spec.Taint.Key) {
		return ""
	}
	return why.Command("dra-steward", "untaint", target.String(), rule.Spec.Taint.Key)
}
