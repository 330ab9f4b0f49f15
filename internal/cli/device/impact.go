package device

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/kubernetes/newer"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/text/printable"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// impactOptions are the flags of impact.
type impactOptions struct {
	file, output   string
	withPartitions bool
	noHeaders      bool
	targets
}

// ImpactCommand returns the command impact.
func ImpactCommand(streams cmdutil.Streams) *cobra.Command {
	o := impactOptions{}
	c := &cobra.Command{
		Use:   "impact {TARGET... KEY[=VALUE][:EFFECT] | RULE | -f FILE}",
		Short: "Show which pods a taint would evict",
		Long: `impact lists the pods that a taint with the effect NoExecute would evict, with their
owners, their PodDisruptionBudgets, and how long they tolerate it. It changes nothing. The
taint comes from a stored DeviceTaintRule (RULE), from a file (-f), or from the arguments.
The effect of the taint is ignored: the answer is always for NoExecute.

` + targetHelp + `

Exit codes: 0 the impact is within the thresholds, 1 it exceeds them, 2 the command failed.`,
		Example: `  dra-steward impact gpu.example.com/node-1/gpu-0 example.com/broken:NoExecute
  dra-steward impact node-1/gpu-0 example.com/broken -o json
  dra-steward impact node/node-1 example.com/maintenance
  dra-steward impact rack-3-maintenance             # a stored DeviceTaintRule
  dra-steward impact -f rule.yaml --from-files cluster/`,
		RunE: func(c *cobra.Command, args []string) error { return impact(c.Context(), streams, o, args) },
	}
	f := c.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the DeviceTaintRule; - is standard input")
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(impactFormats()...), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the headers of the columns")
	f.BoolVar(&o.withPartitions, "with-partitions", false, "also count the devices that share counters with these, such as the other partitions of a GPU")
	o.addFlags(c, true)
	c.ValidArgsFunction = o.read.CompleteRules
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(impactFormats()...))
	return c
}

// impactFormats: wide also names every claim that tolerates the taint and every device that shares
// counters, name only the pods.
func impactFormats() []string { return []string{"text", "wide", "name"} }

func impact(ctx context.Context, streams cmdutil.Streams, o impactOptions, args []string) error {
	if err := cmdutil.CheckOutput(o.output, impactFormats()...); err != nil {
		return err
	}
	if (o.file == "") == (len(args) == 0) {
		return errors.New("name the taint: TARGET KEY[=VALUE]:EFFECT, the name of a DeviceTaintRule, or -f FILE; see 'dra-steward impact --help'")
	}
	state, err := o.read.ReadState(ctx, streams)
	if err != nil {
		return err
	}
	if state.Unread != nil {
		return state.Unread
	}
	selectors, taint, err := o.asked(ctx, streams, state, args)
	if err != nil {
		return err
	}
	left := siblingsOf(state, selectors)
	if o.withPartitions {
		for _, target := range left {
			selectors = append(selectors, target.Selector())
		}
		left = nil
	}
	exceeded := false
	for i, selector := range selectors {
		report := taints.NewPodImpact(state.Objects, selector, taint, time.Now())
		if i == len(selectors)-1 {
			if len(selectors) > 1 && len(report.Exceeded) == 0 {
				report.Exceeded = state.Objects.Together(selectors, taint)
			}
			for _, target := range left {
				report.Siblings = append(report.Siblings, target.String())
			}
		}
		if err := writeReport(streams, report, o.output, !o.noHeaders); err != nil {
			return err
		}
		exceeded = exceeded || len(report.Exceeded) > 0
	}
	if exceeded {
		return cmdutil.ErrFindings
	}
	return nil
}

// siblingsOf are the devices that share counters with selected ones, and are not selected.
func siblingsOf(state *clusterread.State, selectors []*resourceapi.DeviceTaintSelector) []taints.Target {
	var found []taints.Target
	for _, s := range selectors {
		if s == nil {
			return nil // all devices
		}
		target := taints.Target{Driver: ptr.Deref(s.Driver, ""), Pool: ptr.Deref(s.Pool, ""), Device: ptr.Deref(s.Device, "")}
		for d := range state.View.Devices() {
			if id := (usage.DeviceID{Driver: d.Driver(), Pool: d.Pool(), Device: d.Name()}); target.Has(id) {
				found = append(found, taints.Target(id))
			}
		}
	}
	return state.Scope().Siblings(found)
}

// asked is the taint that the arguments name, and the selectors of its devices.
func (o impactOptions) asked(ctx context.Context, streams cmdutil.Streams, state *clusterread.State, args []string) ([]*resourceapi.DeviceTaintSelector, resourceapi.DeviceTaint, error) {
	switch {
	case o.file != "":
		rule, err := ruleOfFile(streams, o.file)
		if err != nil {
			return nil, resourceapi.DeviceTaint{}, err
		}
		return []*resourceapi.DeviceTaintSelector{rule.Spec.DeviceSelector}, rule.Spec.Taint, nil
	case len(args) == 1 && o.selector == "":
		rule := state.View.Rule(strings.TrimPrefix(args[0], "devicetaintrule/"))
		if rule == nil {
			return nil, resourceapi.DeviceTaint{}, fmt.Errorf("DeviceTaintRule %q not found; for a device, add the taint, such as example.com/broken:NoExecute", args[0])
		}
		return []*resourceapi.DeviceTaintSelector{rule.Spec.DeviceSelector}, rule.Spec.Taint, nil
	}
	names, rest, err := o.arguments(args, 1)
	if err != nil {
		return nil, resourceapi.DeviceTaint{}, err
	}
	taint, err := taints.ParseTaint(rest[0], true)
	if err != nil {
		return nil, taint, err
	}
	found, err := o.resolve(ctx, streams, state, state.Scope(), names)
	var selectors []*resourceapi.DeviceTaintSelector
	for _, target := range found {
		selectors = append(selectors, target.Selector())
	}
	return selectors, taint, err
}

// ruleOfFile reads the first DeviceTaintRule of a file.
func ruleOfFile(streams cmdutil.Streams, file string) (*resourceapi.DeviceTaintRule, error) {
	for document, err := range (manifest.Reader{Stdin: streams.In}).Walk(file) {
		if err != nil {
			return nil, err
		}
		if document.Kind != "DeviceTaintRule" {
			continue
		}
		rule, problems := manifest.DecodeAs[*resourceapi.DeviceTaintRule](document)
		if rule == nil {
			return nil, fmt.Errorf("%s: %s", file, problems[0].Message)
		}
		newer.Decode(document.Raw, rule)
		return rule, nil
	}
	return nil, fmt.Errorf("%s: contains no DeviceTaintRule", file)
}

func writeReport(streams cmdutil.Streams, report taints.PodImpact, output string, headers bool) error {
	switch output {
	case "text":
		return report.WriteText(streams.Out, headers)
	case "wide":
		if err := report.WriteText(streams.Out, headers); err != nil {
			return err
		}
		for _, claim := range report.Tolerating {
			printable.Printf(streams.Out, "tolerated by claim %s\n", claim)
		}
		for _, device := range report.Siblings {
			printable.Printf(streams.Out, "shares counters: %s\n", device)
		}
		return nil
	case "name":
		for _, pod := range report.Pods {
			printable.Printf(streams.Out, "pod/%s\n", pod.Name)
		}
		return nil
	}
	return cmdutil.PrintTable(streams.Out, output, report, headers)
}
