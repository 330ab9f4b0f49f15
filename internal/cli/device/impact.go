package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/manifest"
	"github.com/dra-steward/dra-steward/internal/taints"
)

// impactOptions are the flags of impact.
type impactOptions struct {
	file, output string
	read         clusterread.Source
}

func ImpactCommand(streams cmdutil.Streams) *cobra.Command {
	o := impactOptions{}
	c := &cobra.Command{
		Use:   "impact {DEVICE KEY[=VALUE][:EFFECT] | RULE | -f FILE}",
		Short: "Show which pods a taint would evict",
		Long: `impact lists the pods that a taint with the effect NoExecute would evict, with their
owners, their PodDisruptionBudgets, and how long they tolerate it. It changes nothing. The
taint comes from a stored DeviceTaintRule (RULE), from a file (-f), or from the arguments:
DEVICE is DRIVER/POOL/DEVICE, DRIVER/POOL, DRIVER, or the unique end of a device's name.
The effect of the taint is ignored: the answer is always for NoExecute.`,
		Example: `  dra-steward impact gpu.example.com/node-1/gpu-0 example.com/broken:NoExecute
  dra-steward impact node-1/gpu-0 example.com/broken -o json
  dra-steward impact rack-3-maintenance             # a stored DeviceTaintRule
  dra-steward impact -f rule.yaml --from-files cluster/`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return impact(c.Context(), streams, o, args) },
	}
	f := c.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the DeviceTaintRule; - is standard input")
	f.StringVarP(&o.output, "output", "o", "text", "output format: text, json or yaml")
	o.read.AddFlags(c)
	cmdutil.Complete(c, "output", []string{"text", "json", "yaml"})
	return c
}

func impact(ctx context.Context, streams cmdutil.Streams, o impactOptions, args []string) error {
	if o.output != "text" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output %q: must be text, json or yaml", o.output)
	}
	if (o.file == "") == (len(args) == 0) {
		return errors.New("name the taint: DEVICE KEY[=VALUE]:EFFECT, the name of a DeviceTaintRule, or -f FILE; see 'dra-steward impact --help'")
	}
	state, err := o.read.ReadState(ctx, streams)
	if err != nil {
		return err
	}
	selector, taint, err := o.asked(streams, state, args)
	if err != nil {
		return err
	}
	return writeReport(streams, taints.NewReport(state.Objects, selector, taint, time.Now()), o.output)
}

// asked is the taint that the arguments are about.
func (o impactOptions) asked(streams cmdutil.Streams, state *clusterread.State, args []string) (*resourceapi.DeviceTaintSelector, resourceapi.DeviceTaint, error) {
	switch {
	case o.file != "":
		rule, err := ruleOfFile(streams, o.file)
		if err != nil {
			return nil, resourceapi.DeviceTaint{}, err
		}
		return rule.Spec.DeviceSelector, rule.Spec.Taint, nil
	case len(args) == 1:
		rule := state.View.Rule(args[0])
		if rule == nil {
			return nil, resourceapi.DeviceTaint{}, fmt.Errorf("DeviceTaintRule %q not found; for a device, add the taint, such as example.com/broken:NoExecute", args[0])
		}
		return rule.Spec.DeviceSelector, rule.Spec.Taint, nil
	}
	taint, err := taints.ParseTaint(args[1], true)
	if err != nil {
		return nil, taint, err
	}
	target, err := taints.Resolve(args[0], state.Devices())
	return target.Selector(), taint, err
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
		return rule, nil
	}
	return nil, fmt.Errorf("%s: contains no DeviceTaintRule", file)
}

func writeReport(streams cmdutil.Streams, report taints.Report, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(report)
	case "yaml":
		data, err := yaml.Marshal(report)
		if err != nil {
			return err
		}
		_, err = streams.Out.Write(data)
		return err
	default:
		return report.WriteText(streams.Out)
	}
}
