package node

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/nodeagent"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

const nodeHoldingsHelp = `holdings shows which container of this node holds which device: devices of claims, with the
corrections of the node agent, and devices of device plugins. A device without a container
belongs to the pod as a whole: no container refers to its request, or only init containers
that have finished. A device without a pod is still prepared for a pod that was deleted by
force.

It reads what "dra-steward node watch" reads: the kubelet's PodResources API, with
--kubelet-root the kubelet's checkpoint, and from the API server the pods and slices of this
node, the claims of its pods and the DeviceTaintRules. With --attributes it shows attributes
of the devices, by which tools that know a device by its UUID or PCI address can join.

-o json has all fields: UIDs, adminAccess, shareID, the extended resource, the state of the
container, CDI ids, taints, and whether a field is exact.`

type nodeHoldingsOptions struct {
	nodeagent.Sources
	output    string
	noHeaders bool
	timeout   time.Duration
}

func holdingsFormats() []string { return []string{"text", "wide"} }

func nodeHoldingsCommand(streams cmdutil.Streams) *cobra.Command {
	var o nodeHoldingsOptions
	c := &cobra.Command{
		Use:   "holdings",
		Short: "Show which container of this node holds which device",
		Long:  nodeHoldingsHelp,
		Example: `  dra-steward node holdings --node-name node-1 --kubeconfig admin.conf
  dra-steward node holdings --attributes uuid,resource.kubernetes.io/pciBusID -o wide
  dra-steward node holdings --kubelet-root /var/lib/kubelet -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := cmdutil.CheckOutput(o.output, holdingsFormats()...); err != nil {
				return err
			}
			return o.run(c.Context(), streams)
		},
	}
	f := c.Flags()
	o.AddFlags(f)
	f.StringVarP(&o.output, "output", "o", "text", "output format: "+strings.Join(cmdutil.OutputFormats(holdingsFormats()...), ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the headers of the columns")
	cmdutil.DurationVar(f, &o.timeout, "timeout", 30*time.Second, "maximum duration of the reads")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(holdingsFormats()...))
	return c
}

func (o nodeHoldingsOptions) run(ctx context.Context, streams cmdutil.Streams) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	observation, err := o.Observe(ctx)
	if err != nil {
		return err
	}
	report := observation.Report(o.NodeName())
	if report.Stale {
		printable.Printf(streams.Err, "warning: the kubelet has just started and does not list all of its pods yet\n")
	}
	if o.output == "text" || o.output == "wide" {
		return printHoldings(streams.Out, report, o.AttributeNames(), o.output == "wide", !o.noHeaders)
	}
	return cmdutil.PrintTable(streams.Out, o.output, report, !o.noHeaders)
}

// printHoldings writes a line for each device of each holder, with "-" for what is empty.
func printHoldings(out io.Writer, report nodeagent.Holdings, attributes []string, wide, headers bool) error {
	table := printable.NewTable(out, 3)
	header := []string{"NAMESPACE", "POD", "CONTAINER", "CLAIM", "REQUEST", "DEVICE"}
	if wide {
		header = append(header, "STATE", "ADMIN", "SHARE", "RESOURCE", "PREPARED", "EXACTNESS", "TAINTS")
	}
	for _, name := range attributes {
		header = append(header, strings.ToUpper(name[strings.LastIndex(name, "/")+1:]))
	}
	if headers {
		printable.Printf(table, "%s\n", printable.Cells(header))
	}
	for _, h := range report.Holdings {
		device := h.Driver + "/" + h.Pool + "/" + h.Device
		if h.Claim == "" { // of a device plugin
			device = h.Resource + "/" + h.Device
		}
		line := []string{h.Namespace, h.Pod, h.Container, h.Claim, h.Request, device}
		if wide {
			line = append(line, h.State, strconv.FormatBool(h.AdminAccess), string(h.ShareID), h.Resource,
				string(h.Prepared), string(h.Exactness), taintsText(h.Taints))
		}
		for _, name := range attributes {
			line = append(line, h.Attributes[name])
		}
		for i, text := range line {
			line[i] = cmp.Or(text, "-")
		}
		printable.Printf(table, "%s\n", printable.Cells(line))
	}
	return table.Flush()
}

func taintsText(taints []nodeagent.TaintOfHolder) string {
	texts := make([]string, 0, len(taints))
	for _, t := range taints {
		text := t.Taint
		if t.Tolerated {
			text += " (tolerated)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
