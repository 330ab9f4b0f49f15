package drain

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

func listFormats() []string { return []string{"text", "wide", "name"} }

// listDrains shows all drains.
func (o drainOptions) listDrains(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient) error {
	if err := cmdutil.CheckOutput(o.output, listFormats()...); err != nil {
		return err
	}
	if o.watch {
		return o.followList(ctx, streams, client)
	}
	list, err := o.drains(ctx, streams, client)
	if err != nil {
		return err
	}
	return o.writeList(streams.Out, list)
}

// followList shows all drains, and then those that change.
func (o drainOptions) followList(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient) error {
	o.read.Watcher = clusterread.NewWatcher(streams.Err)
	return cmdutil.Watch(ctx, streams, o.read.Watcher.Changed(), func(ctx context.Context) ([]string, error) {
		list, err := o.drains(ctx, streams, client)
		if err != nil {
			return nil, err
		}
		if cmdutil.HasRows(o.output, listFormats()...) {
			return cmdutil.Lines(func(out io.Writer) error { return o.writeList(out, list) })
		}
		return cmdutil.Documents(o.output, list.Items)
	})
}

// drains reads all drains.
func (o drainOptions) drains(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient) (*v1alpha1.DeviceDrainList, error) {
	found, err := clusterread.List[*v1alpha1.DeviceDrain](ctx, &o.read.Source, streams, "DeviceDrains", client)
	if err != nil {
		return nil, clusterwrite.DrainError(err)
	}
	list := &v1alpha1.DeviceDrainList{Items: []v1alpha1.DeviceDrain{}}
	list.APIVersion, list.Kind = v1alpha1.APIVersion, "DeviceDrainList"
	for _, d := range found {
		item := *d
		item.APIVersion, item.Kind = v1alpha1.APIVersion, v1alpha1.DeviceDrainKind
		list.Items = append(list.Items, item)
	}
	return list, nil
}

func (o drainOptions) writeList(out io.Writer, list *v1alpha1.DeviceDrainList) error {
	switch o.output {
	case "text", "wide":
	case "name":
		for i := range list.Items {
			printable.Printf(out, "devicedrain.%s/%s\n", v1alpha1.Group, list.Items[i].Name)
		}
		return nil
	default:
		return cmdutil.PrintTable(out, o.output, list, !o.noHeaders)
	}
	if len(list.Items) == 0 && !o.noHeaders {
		_, err := printable.Printf(out, "there are no drains\n")
		return err
	}
	w := printable.NewTable(out, 3)
	if !o.noHeaders {
		printable.Printf(w, "NAME\tDEVICES\tPROGRESS\n")
	}
	for i := range list.Items {
		d := &list.Items[i]
		printable.Printf(w, "%s\t%d\t%s\n", d.Name, d.Status.Counts.Devices, clusterwrite.Progress(d))
	}
	return w.Flush()
}

// complete offers names of drains to the commands about drains, and targets else.
func (o *drainOptions) complete(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if !o.pause && !o.resume && !o.cancel {
		return o.read.CompleteTargets(c, args, typed)
	}
	return o.read.CompleteKind("drain")(c, args, typed)
}
