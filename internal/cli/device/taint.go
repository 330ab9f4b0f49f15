package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/clusterread"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// taintOptions are the flags of taint and untaint.
type taintOptions struct {
	read             clusterread.Source
	expires          time.Duration
	acknowledge, dry string
}

func TaintCommand(streams cmdutil.Streams) *cobra.Command {
	o := taintOptions{}
	c := &cobra.Command{
		Use:   "taint DEVICE KEY[=VALUE]:EFFECT",
		Short: "Taint a device, a pool or a driver with a DeviceTaintRule",
		Long: `taint creates a DeviceTaintRule for a key on DRIVER/POOL/DEVICE, DRIVER/POOL, DRIVER, or on
the device with the given unique end of its name. The name of the rule is derived from
these: tainting again updates the rule, for example from None to NoExecute, and the same
taint again changes nothing. Before NoExecute it shows the impact. With --for, the
controller deletes the rule after that time.`,
		Example: `  dra-steward taint gpu.example.com/node-1/gpu-0 example.com/suspect:NoSchedule --for 2h
  dra-steward taint node-1/gpu-0 example.com/broken:NoExecute --dry-run=server
  dra-steward taint gpu.example.com/rack-3 example.com/firmware:NoExecute --acknowledge "pods<=40,namespaces<=3"`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return taintDevice(c.Context(), streams, o, args) },
	}
	o.flags(c)
	c.Flags().DurationVar(&o.expires, "for", 0, "delete the rule after this time, at least a minute (needs the controller of dra-steward)")
	c.Flags().StringVar(&o.acknowledge, "acknowledge", "", "acknowledge an impact up to this ceiling: pods<=120,namespaces<=4")
	return c
}

func UntaintCommand(streams cmdutil.Streams) *cobra.Command {
	o := taintOptions{}
	c := &cobra.Command{
		Use:   "untaint DEVICE KEY[=VALUE][:EFFECT]",
		Short: "Delete the DeviceTaintRule that taint created",
		Long: `untaint deletes the rule that "dra-steward taint" created for a key on a device, a pool or a
driver. Only the driver can remove a taint that it has set itself; untaint then prints what
you can do.`,
		Example: `  dra-steward untaint gpu.example.com/node-1/gpu-0 example.com/suspect`,
		Args:    cobra.ExactArgs(2),
		RunE:    func(c *cobra.Command, args []string) error { return untaintDevice(c.Context(), streams, o, args) },
	}
	o.flags(c)
	return c
}

func (o *taintOptions) flags(c *cobra.Command) {
	o.read.Client.AddFlags(c)
	c.Flags().StringVar(&o.dry, "dry-run", "none", "server: let the API server process the request without storing it; none")
	cmdutil.Complete(c, "dry-run", []string{"none", "server"})
}

// dryRun is for the calls of a client.
func (o taintOptions) dryRun() ([]string, error) {
	switch o.dry {
	case "none", "":
		return nil, nil
	case "server":
		return []string{metav1.DryRunAll}, nil
	default:
		return nil, fmt.Errorf("--dry-run %q: must be none or server", o.dry)
	}
}

func taintDevice(ctx context.Context, streams cmdutil.Streams, o taintOptions, args []string) error {
	taint, err := taints.ParseTaint(args[1], false)
	if err != nil {
		return err
	}
	if o.expires != 0 && o.expires < time.Minute {
		return fmt.Errorf("--for %s: must be at least a minute", o.expires)
	}
	if o.acknowledge != "" {
		if _, err := guard.ParseCeiling(o.acknowledge); err != nil {
			return fmt.Errorf("--acknowledge: %w", err)
		}
	}
	dry, err := o.dryRun()
	if err != nil {
		return err
	}
	state, err := o.read.ReadState(ctx, streams)
	if err != nil {
		return err
	}
	intent := taints.Intent{Taint: taint, Acknowledged: o.acknowledge}
	if intent.Target, err = taints.Resolve(args[0], state.Devices()); err != nil {
		return err
	}
	now := time.Now()
	if o.expires > 0 {
		intent.Expires = now.Add(o.expires)
	}
	if taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
		if err := taints.NewReport(state.Objects, intent.Target.Selector(), taint, now).WriteText(streams.Out); err != nil {
			return err
		}
	}
	rules, version, err := o.rules(streams)
	if err != nil {
		return err
	}
	return applyRule(ctx, streams, rules, version, intent, state.View.Rule(taints.Name(intent.Target, taint.Key)), dry)
}

// rules are the DeviceTaintRules in the newest version that is served.
func (o taintOptions) rules(streams cmdutil.Streams) (dynamic.ResourceInterface, string, error) {
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return nil, "", err
	}
	return clusterread.ServedRules(config)
}

// applyRule writes a rule and says what became of it; stored is the one that is there.
func applyRule(ctx context.Context, streams cmdutil.Streams, rules dynamic.ResourceInterface, version string, intent taints.Intent, stored *resourceapi.DeviceTaintRule, dry []string) error {
	rule := intent.Rule()
	rule.APIVersion, rule.Kind = resourceapi.GroupName+"/"+version, "DeviceTaintRule"
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
	if err != nil {
		return err
	}
	delete(fields, "status") // in Kubernetes 1.34 a rule has none
	data, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	force := true
	applied, err := rules.Patch(ctx, rule.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: taints.ManagedByTaint, Force: &force, DryRun: dry})
	if err != nil {
		return err
	}
	did := "changed"
	switch {
	case stored == nil:
		did = "created"
	case stored.ResourceVersion == applied.GetResourceVersion():
		did = "unchanged"
	}
	return said(streams, fmt.Sprintf("devicetaintrule/%s %s: %s %s", rule.Name, did, intent.Target, taintText(intent.Taint)), intent.Expires, dry)
}

func said(streams cmdutil.Streams, text string, expires time.Time, dry []string) error {
	if !expires.IsZero() {
		text += ", until " + expires.UTC().Format(time.RFC3339)
	}
	if dry != nil {
		text += " (server dry run)"
	}
	_, err := fmt.Fprintln(streams.Out, text)
	return err
}

func taintText(t resourceapi.DeviceTaint) string {
	text := t.Key
	if t.Value != "" {
		text += "=" + t.Value
	}
	return text + ":" + string(t.Effect)
}

func untaintDevice(ctx context.Context, streams cmdutil.Streams, o taintOptions, args []string) error {
	taint, err := taints.ParseTaint(args[1], true)
	if err != nil {
		return err
	}
	dry, err := o.dryRun()
	if err != nil {
		return err
	}
	state, err := o.read.ReadState(ctx, streams)
	if err != nil {
		return err
	}
	target, err := taints.Resolve(args[0], state.Tainted())
	if err != nil {
		return err
	}
	name := taints.Name(target, taint.Key)
	stored := state.View.Rule(name)
	if stored == nil || stored.Labels[taints.ManagedBy] != taints.ManagedByTaint || !taints.Same(stored.Spec.Taint, taint) {
		return notOurs(streams, state.View, target, taint)
	}
	rules, _, err := o.rules(streams)
	if err != nil {
		return err
	}
	uid := stored.UID
	if err := rules.Delete(ctx, name, metav1.DeleteOptions{DryRun: dry, Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	for _, left := range taints.Others(state.View.Devices(), target, taint, name) {
		fmt.Fprintf(streams.Err, "warning: still tainted: %v\n", left)
	}
	return said(streams, fmt.Sprintf("devicetaintrule/%s deleted: %s %s", name, target, taintText(stored.Spec.Taint)), time.Time{}, dry)
}

// notOurs says who else taints the target, and what can be done about it.
func notOurs(streams cmdutil.Streams, view *tracker.Snapshot, target taints.Target, taint resourceapi.DeviceTaint) error {
	found := taints.Others(view.Devices(), target, taint, "")
	if len(found) == 0 {
		fmt.Fprintf(streams.Out, "%s has no such taint: nothing to do\n", target)
		return nil
	}
	return errors.Join(found...)
}
