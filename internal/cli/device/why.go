package device

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/why"
)

// whyOptions are the flags of why.
type whyOptions struct {
	clusterread.SnapshotOptions
	output  string
	patched bool
}

func WhyCommand(streams cmdutil.Streams) *cobra.Command {
	o := whyOptions{SnapshotOptions: clusterread.SnapshotOptions{Claims: true, Pods: true, Nodes: true}}
	c := &cobra.Command{
		Use:   "why CLAIM|POD",
		Short: "Show why a claim, or the claims of a pod, have no devices",
		Long: `why shows, for each request of a ResourceClaim and each device, the first reason why the
device is not allocated: its pool is incomplete (no reason before Kubernetes 1.35), the pod
cannot run on its node, a selector of the class or of the request is false or fails, a taint
is not tolerated (with its origin), another claim has the device (which one, if you are
allowed to read it). kube-scheduler's own allocator gives the verdict.

CLAIM is claim/NAME, POD is pod/NAME; NAME alone is a claim, otherwise a pod. why reads the
objects that your permissions let you read, and reports the others; or it reads files
(--from-files). kube-scheduler uses devices as drivers publish them; --patched applies
ResourceSlicePatches, for a scheduler that does.

Exit codes: 0 the devices are allocated or could be now, 1 they are not, 2 the command
failed.`,
		Example: `  dra-steward why pod/train-0 -n team-a
  dra-steward why claim/train -n team-a -o yaml
  kubectl get resourceslices,deviceclasses,devicetaintrules,resourceclaims,nodes,pods -A -o yaml |
    dra-steward why train -n team-a --from-files -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return explainWhy(c.Context(), streams, o, args[0]) },
	}
	o.AddFlags(c)
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "output format: text (grouped by reason), wide (each device), json or yaml")
	f.BoolVar(&o.patched, "patched", false, "apply ResourceSlicePatches to the devices, as dra-steward-scheduler does")
	cmdutil.Complete(c, "output", []string{"text", "wide", "json", "yaml"})
	return c
}

// whyReport is what why writes.
type whyReport struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod,omitempty"`
	// Scheduler is what kube-scheduler has said of the pod.
	Scheduler string       `json:"scheduler,omitempty"`
	Claims    []why.Report `json:"claims"`
}

func explainWhy(ctx context.Context, streams cmdutil.Streams, o whyOptions, argument string) error {
	if !slices.Contains([]string{"text", "wide", "json", "yaml"}, o.output) {
		return fmt.Errorf("--output %q: must be text, wide, json or yaml", o.output)
	}
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
	report, err := explainIn(ctx, found, o, namespace, claim, pod)
	if err != nil {
		return err
	}
	switch o.output {
	case "json":
		err = writeJSON(streams.Out, report)
	case "yaml":
		err = writeYAML(streams.Out, report)
	default:
		err = writeWhy(streams.Out, report, o.output == "wide")
	}
	if err == nil && slices.ContainsFunc(report.Claims, func(r why.Report) bool { return r.Verdict != why.Allocated && r.Verdict != why.Allocatable }) {
		err = cmdutil.ErrFindings
	}
	return err
}

// why answers for one claim and a pod that uses it, or for all claims of a pod.
func explainIn(ctx context.Context, l *clusterread.Snapshot, o whyOptions, namespace string, claim *resourceapi.ResourceClaim, pod *corev1.Pod) (whyReport, error) {
	report := whyReport{Namespace: namespace, Claims: []why.Report{}}
	claims := []*resourceapi.ResourceClaim{claim}
	if claim == nil {
		claims = nil
		for _, reference := range l.ClaimsOf(pod) {
			if reference.Claim != nil {
				claims = append(claims, reference.Claim)
				continue
			}
			report.Claims = append(report.Claims, why.Report{Namespace: pod.Namespace, Claim: reference.Name, Verdict: why.NotMade, Message: reference.Missing})
		}
	} else if users := l.UsersOf(claim); len(users) > 0 {
		pod = users[0]
	}
	if pod != nil {
		report.Pod = pod.Name
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
				report.Scheduler = c.Message
			}
		}
	}
	world := why.World{View: l.View, Claims: l.Claims, Nodes: l.Nodes, Patched: o.patched, NoClasses: l.NoClasses, IncompletePools: l.Before135, Notes: l.Notes}
	for _, claim := range claims {
		answer, err := world.Explain(ctx, claim, pod)
		if err != nil {
			return report, err
		}
		report.Claims = append(report.Claims, answer)
	}
	return report, nil
}
