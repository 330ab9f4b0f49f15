package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/cluster/ownclient"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// reasonMax bounds the reason of an acknowledgement, in bytes.
const reasonMax = 512

// AcknowledgeCommand returns the command that acknowledges devices of DeviceReactions.
func AcknowledgeCommand(streams cmdutil.Streams) *cobra.Command {
	var read clusterread.Source
	var reason string
	var dry cmdutil.DryRun
	c := &cobra.Command{
		Use:   "acknowledge DEVICE...",
		Short: "Return devices drained by a DeviceReaction to use",
		Long: `acknowledge returns drained devices to use. Their DeviceReaction deletes their drains, which
lifts the cordon, and does not drain them again until the cause has gone.

DEVICE is a device, in full (DRIVER/POOL/DEVICE) or by the unique end of its name, or its drain:
devicedrain/NAME.`,
		Example: `  dra-steward acknowledge gpu.example.com/node-1/gpu-3 --reason "replaced, OPS-411"
  dra-steward acknowledge node-1/gpu-3 --reason "tested by hand"`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("name the devices, as kubectl get devicereaction NAME -o yaml shows them")
			case strings.TrimSpace(reason) == "":
				return errors.New("--reason: say why the devices may be used again")
			case len(reason) > reasonMax:
				return fmt.Errorf("--reason: must have at most %d bytes", reasonMax)
			}
			config, err := read.Client.Config(streams)
			if err != nil {
				return err
			}
			drains, err := ownclient.NewDrainClient(config)
			if err != nil {
				return err
			}
			return acknowledge(c.Context(), streams, drains, args, reason, dry)
		},
	}
	read.Client.AddFlags(c)
	c.ValidArgsFunction = read.CompleteReacted
	dry.AddFlag(c, "print which drains would be acknowledged")
	c.Flags().StringVar(&reason, "reason", "", "why the devices may be used again, such as what was replaced (required)")
	return c
}

// acknowledge annotates the drains of all devices, or of none that cannot be found.
func acknowledge(ctx context.Context, streams cmdutil.Streams, client *ownclient.DrainClient, args []string, reason string, dry cmdutil.DryRun) error {
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ReactionLabel})
	if err != nil {
		return clusterwrite.DrainError(err)
	}
	var names []string
	for _, arg := range args {
		name, err := drainOf(list.Items, arg)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	for i, name := range names {
		if err := reacts(ctx, client, list.Items, name); err != nil {
			return err
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			d, err := client.Get(ctx, name)
			if err != nil {
				return err
			}
			if d.Annotations == nil {
				d.Annotations = map[string]string{}
			}
			d.Annotations[v1alpha1.AcknowledgedAnnotation] = reason
			if dry != cmdutil.DryRunClient {
				_, err = client.Update(ctx, d, dry == cmdutil.DryRunServer)
			}
			return err
		})
		if apierrors.IsNotFound(err) {
			err = nil // its reaction has deleted it
		}
		if err != nil {
			return err
		}
		printable.Printf(streams.Out, "%s acknowledged: its reaction deletes devicedrain %s%s\n", args[i], name, dry.Suffix())
	}
	return nil
}

// reacts returns an error if the reaction of a drain is gone: then nothing reads the annotation.
func reacts(ctx context.Context, client *ownclient.DrainClient, drains []v1alpha1.DeviceDrain, name string) error {
	at := slices.IndexFunc(drains, func(d v1alpha1.DeviceDrain) bool { return d.Name == name })
	reaction := drains[at].Labels[v1alpha1.ReactionLabel]
	if err := client.Reaction(ctx, reaction); !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("DeviceReaction %s is gone: lift the cordon with dra-steward drain --cancel %s", reaction, name)
}

// drainOf returns the name of the one drain of a reaction with a device.
func drainOf(drains []v1alpha1.DeviceDrain, arg string) (string, error) {
	wanted, byName := strings.CutPrefix(arg, "devicedrain/")
	var found []string
	for i := range drains {
		d := &drains[i]
		if byName && d.Name == wanted {
			return d.Name, nil
		}
		for _, name := range d.Spec.Devices {
			if !byName && (name.String() == arg || strings.HasSuffix(name.String(), "/"+arg)) {
				found = append(found, d.Name)
			}
		}
	}
	switch {
	case byName || len(found) == 0:
		return "", fmt.Errorf("%s: no DeviceReaction has drained it; kubectl get devicedrains -l %s shows which are drained", arg, v1alpha1.ReactionLabel)
	case len(found) > 1:
		return "", fmt.Errorf("%s: is the end of the names of %d devices; give DRIVER/POOL/DEVICE, or devicedrain/NAME of %s", arg, len(found), strings.Join(found, ", "))
	}
	return found[0], nil
}
