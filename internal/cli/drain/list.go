package drain

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/drain"
)

func listFormats() []string { return []string{"text", "wide", "name"} }

// listDrains shows all drains.
func (o drainOptions) listDrains(ctx context.Context, streams cmdutil.Streams, client *drain.Client) error {
	if err := cmdutil.CheckOutput(o.output, listFormats()...); err != nil {
		return err
	}
	list := func(ctx context.Context, out io.Writer) error {
		list, err := client.List(ctx)
		if err != nil {
			return drainError(err)
		}
		list.APIVersion, list.Kind = v1alpha1.APIVersion, "DeviceDrainList"
		return o.writeList(out, list)
	}
	if o.watch {
		return cmdutil.Watch(ctx, streams.Out, list)
	}
	return list(ctx, streams.Out)
}

func (o drainOptions) writeList(out io.Writer, list *v1alpha1.DeviceDrainList) error {
	switch o.output {
	case "text", "wide":
	case "name":
		for i := range list.Items {
			fmt.Fprintf(out, "devicedrain.%s/%s\n", v1alpha1.Group, list.Items[i].Name)
		}
		return nil
	default:
		return cmdutil.Print(out, o.output, list)
	}
	if len(list.Items) == 0 && !o.noHeaders {
		_, err := fmt.Fprintln(out, "there are no drains")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if !o.noHeaders {
		fmt.Fprintln(w, "NAME\tDEVICES\tPROGRESS")
	}
	for i := range list.Items {
		d := &list.Items[i]
		fmt.Fprintf(w, "%s\t%d\t%s\n", d.Name, d.Status.Counts.Devices, progress(d))
	}
	return w.Flush()
}

// complete offers names of drains to the commands about drains, and targets else.
func (o *drainOptions) complete(c *cobra.Command, args []string, typed string) (names []string, _ cobra.ShellCompDirective) {
	if !o.pause && !o.resume && !o.cancel {
		return o.read.CompleteTargets(c, args, typed)
	}
	config, err := o.read.Client.Config(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	client, err := drain.NewClient(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := client.List(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
