package roll

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// list shows all rolls.
func (o *options) listRolls(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient) error {
	all, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return noType(err)
	}
	switch o.output {
	case "text", "wide":
	case "name":
		for i := range all.Items {
			printable.Printf(streams.Out, "deviceroll.%s/%s\n", v1alpha1.Group, all.Items[i].Name)
		}
		return nil
	default:
		all.APIVersion, all.Kind = v1alpha1.APIVersion, "DeviceRollList"
		for i := range all.Items {
			all.Items[i].APIVersion, all.Items[i].Kind = v1alpha1.APIVersion, "DeviceRoll"
		}
		return cmdutil.PrintTable(streams.Out, o.output, all, !o.noHeaders)
	}
	if len(all.Items) == 0 && !o.noHeaders {
		_, err := printable.Printf(streams.Out, "there are no rolls\n")
		return err
	}
	w := printable.NewTable(streams.Out, 3)
	if !o.noHeaders {
		printable.Printf(w, "NAME\tDRIVER\tPROGRESS\n")
	}
	for i := range all.Items {
		printable.Printf(w, "%s\t%s\t%s\n", all.Items[i].Name, all.Items[i].Spec.Driver, roll.Progress(&all.Items[i]))
	}
	return w.Flush()
}

// steer changes a roll.
func (o *options) steer(ctx context.Context, streams cmdutil.Streams, client *ownclient.RollClient, arg string) error {
	name, err := named(ctx, client, arg)
	if err != nil {
		return err
	}
	if o.remove {
		if err := client.DeleteRoll(ctx, name); err != nil {
			return err
		}
		printable.Printf(streams.Out, "deviceroll %s deleted; the controller takes its cordons back\n", name)
		return nil
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		r, err := client.GetRoll(ctx, name)
		if err != nil {
			return err
		}
		if err := o.change(r); err != nil {
			return err
		}
		_, err = client.UpdateRoll(ctx, r)
		return err
	})
	if err != nil {
		return err
	}
	did := "continued"
	switch {
	case o.pause:
		did = "paused"
	case o.undo:
		did = "undone: the controller takes its cordons back; the pods of the driver stay as they are"
	case len(o.skip) > 0:
		did = "leaves out " + strings.Join(o.skip, ", ")
	}
	printable.Printf(streams.Out, "deviceroll %s %s\n", name, did)
	if o.wait {
		return o.follow(ctx, streams, client, name)
	}
	return nil
}

func (o *options) change(r *v1alpha1.DeviceRoll) error {
	switch {
	case o.proceed:
		r.Spec.Continue = r.Status.Continued + 1
	case o.pause:
		r.Spec.Paused = true
	case o.resume:
		r.Spec.Paused, r.Spec.Undo = false, false
	case o.undo:
		r.Spec.Undo = true
	}
	for _, node := range o.skip {
		if !slices.ContainsFunc(r.Status.Nodes, func(n v1alpha1.RollNode) bool { return n.Name == node }) {
			return fmt.Errorf("--skip %s: DeviceRoll %s has no such node", node, r.Name)
		}
		if !slices.Contains(r.Spec.Skip, node) {
			r.Spec.Skip = append(r.Spec.Skip, node)
		}
	}
	return nil
}

// named is the roll of a name, or the one of a driver that is not complete.
func named(ctx context.Context, client *ownclient.RollClient, arg string) (string, error) {
	all, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", noType(err)
	}
	var found []string
	for i := range all.Items {
		r := &all.Items[i]
		if r.Name == arg {
			return arg, nil
		}
		if r.Spec.Driver == arg && r.Status.CompletionTime == nil {
			found = append(found, r.Name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("%s is no roll, and no driver with a roll that is not complete; dra-steward roll --list shows all", arg)
	}
	return "", fmt.Errorf("%s has %d rolls: name one of %s", arg, len(found), strings.Join(found, ", "))
}
