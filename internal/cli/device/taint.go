package device

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterwrite"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
)

// taintOptions are the flags of taint and untaint.
type taintOptions struct {
	targets
	notes       notes
	expires     time.Duration
	acknowledge string
	faults      clusterread.FaultCheck
	dry         cmdutil.DryRun
	// list shows rules instead of writing one.
	list      bool
	output    string
	noHeaders bool
	// keep is set unless --for is given: an expiry that the rule has stays.
	keep bool
}

// TaintCommand returns the command taint.
func TaintCommand(streams cmdutil.Streams) *cobra.Command {
	o := taintOptions{}
	c := &cobra.Command{
		Use:   "taint TARGET... KEY[=VALUE]:EFFECT | KEY[=VALUE][:EFFECT]- | --list",
		Short: "Taint devices with DeviceTaintRules",
		Long: `taint creates a DeviceTaintRule for a key on each target. KEY- removes the taint, as untaint
does. The name of a rule is derived from target and key: tainting again updates the rule, for
example from None to NoExecute, and the same taint again changes nothing. Before NoExecute it
shows the impact, and where the policy DRA-RULE-003 requires it, writes the effect None first.
With --for, the controller deletes the rule after that time; without it, an expiry that the
rule has stays, and --for=0 removes it. Your user name, or --owner, becomes an annotation of the
rule, as do --reason and --ticket. --list shows the rules of the cluster with these.

` + targetHelp,
		Example: `  dra-steward taint gpu.example.com/node-1/gpu-0 example.com/suspect:NoSchedule --for 2d
  dra-steward taint node/node-1 example.com/maintenance:NoSchedule --reason "replace the fan" --ticket OPS-1234
  dra-steward taint --list
  dra-steward taint pod/train-0 -n team-a example.com/suspect:NoSchedule
  dra-steward taint -l rack=r7 example.com/firmware:NoExecute --acknowledge "pods<=40,namespaces<=3"
  dra-steward taint node-1/gpu-0 example.com/broken:NoExecute --dry-run=server
  dra-steward taint gpu.example.com/node-1/gpu-0 example.com/suspect-`,
		Args: func(c *cobra.Command, args []string) error {
			if o.list {
				return cobra.NoArgs(c, args)
			}
			return cobra.MinimumNArgs(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, streams, args) },
	}
	o.flags(c)
	cmdutil.DurationVar(c.Flags(), &o.expires, "for", 0, "delete the rule after this time, at least a minute (needs the controller of dra-steward)")
	c.Flags().StringVar(&o.acknowledge, "acknowledge", "", "acknowledge an impact up to this ceiling: pods<=120,namespaces<=4")
	o.faults.AddFlags(c.Flags())
	o.notes.addFlags(c)
	c.Flags().BoolVar(&o.list, "list", false, "show the DeviceTaintRules of the cluster, with who wrote them and why")
	c.Flags().StringVarP(&o.output, "output", "o", "text", "with --list: output format: "+strings.Join(cmdutil.OutputFormats(ruleFormats()...), ", "))
	c.Flags().BoolVar(&o.noHeaders, "no-headers", false, "with --list: print no header")
	cmdutil.Complete(c, "output", cmdutil.OutputFormats(ruleFormats()...))
	return c
}

// run lists, taints or untaints.
func (o taintOptions) run(c *cobra.Command, streams cmdutil.Streams, args []string) error {
	switch {
	case o.list:
		return o.listRules(c.Context(), streams)
	case c.Flags().Changed("output") || o.noHeaders:
		return errors.New("--output and --no-headers: add --list")
	}
	o.keep = !c.Flags().Changed("for")
	last := len(args) - 1
	if text, remove := strings.CutSuffix(args[last], "-"); remove {
		return untaintDevices(c.Context(), streams, o, append(args[:last:last], text))
	}
	return taintDevices(c.Context(), streams, o, args)
}

// UntaintCommand returns the command untaint.
func UntaintCommand(streams cmdutil.Streams) *cobra.Command {
	o := taintOptions{}
	c := &cobra.Command{
		Use:   "untaint TARGET... KEY[=VALUE][:EFFECT]",
		Short: "Delete the DeviceTaintRules that taint created",
		Long: `untaint deletes the rules that "dra-steward taint" created for a key on each target. Only the
driver can remove a taint that it has set itself; untaint then prints what you can do.

` + targetHelp,
		Example: `  dra-steward untaint gpu.example.com/node-1/gpu-0 example.com/suspect
  dra-steward untaint node/node-1 example.com/maintenance`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return untaintDevices(c.Context(), streams, o, args) },
	}
	o.flags(c)
	return c
}

func (o *taintOptions) flags(c *cobra.Command) {
	o.addFlags(c, false)
	o.dry.AddFlag(c, "print the changes without making them")
}

// storedRule returns a rule as it is now, also without the right to list rules; without the right to read it, as the
// list has it.
func storedRule(ctx context.Context, rules *clusterwrite.Rules, state *clusterread.State, name string) (*resourceapi.DeviceTaintRule, error) {
	stored, err := rules.Get(ctx, name)
	if apierrors.IsForbidden(err) {
		return state.View.Rule(name), nil
	}
	return stored, err
}

func taintDevices(ctx context.Context, streams cmdutil.Streams, o taintOptions, args []string) error {
	names, rest, err := o.arguments(args, 1)
	if err != nil {
		return err
	}
	taint, err := taints.ParseTaint(rest[0], false)
	if err != nil {
		return err
	}
	if err := o.asked().Check(); err != nil {
		return err
	}
	state, err := o.read.ReadState(ctx, streams)
	if err != nil {
		return err
	}
	found, err := o.resolve(ctx, streams, state, state.Scope(), names)
	if err != nil {
		return incomplete(state, err)
	}
	w, err := o.writer(streams)
	if err != nil {
		return err
	}
	if err := o.checkFaults(ctx, streams); err != nil {
		return err
	}
	user, err := o.user(ctx, streams)
	if err != nil {
		return err
	}
	for _, target := range found {
		now := time.Now()
		stored, err := storedRule(ctx, w.rules, state, taints.Name(target, taint.Key))
		if err != nil {
			return err
		}
		intent := o.asked().Intent(target, taint, stored, user, now)
		if taint.Effect == resourceapi.DeviceTaintEffectNoExecute && state.Unread == nil {
			if err := w.show(taints.NewPodImpact(state.Objects, target.Selector(), taint, now)); err != nil {
				return err
			}
		}
		if err := w.apply(ctx, intent, stored); err != nil {
			return err
		}
	}
	return nil
}

// asked is what the flags ask for.
func (o taintOptions) asked() clusterwrite.Taint {
	t := clusterwrite.Taint{Acknowledged: o.acknowledge, Owner: o.notes.given("owner", o.notes.owner), Reason: o.notes.given("reason", o.notes.reason), Ticket: o.notes.given("ticket", o.notes.ticket)}
	if !o.keep {
		t.Expires = &o.expires
	}
	return t
}

func (o taintOptions) checkFaults(ctx context.Context, streams cmdutil.Streams) error {
	config, err := o.read.Client.Config(streams)
	if err != nil {
		return err
	}
	return o.faults.Check(ctx, streams, config, faults.RuleExists, o.dry != "")
}

// incomplete adds to an error about a target that not all claims and pods could be read.
func incomplete(state *clusterread.State, err error) error {
	if state.Unread == nil {
		return err
	}
	return fmt.Errorf("%w; %w", err, state.Unread)
}

func untaintDevices(ctx context.Context, streams cmdutil.Streams, o taintOptions, args []string) error {
	names, rest, err := o.arguments(args, 1)
	if err != nil {
		return err
	}
	taint, err := taints.ParseTaint(rest[0], true)
	if err != nil {
		return err
	}
	state, err := o.read.ReadState(ctx, streams)
	if err != nil {
		return err
	}
	if state.NoRules {
		return errors.New("cannot find the taints of the devices: you are not allowed to list DeviceTaintRules")
	}
	scope := state.Scope()
	scope.Names = state.Tainted()
	found, err := o.resolve(ctx, streams, state, scope, names)
	if err != nil {
		return incomplete(state, err)
	}
	w, err := o.writer(streams)
	if err != nil {
		return err
	}
	for _, target := range found {
		if err := w.remove(ctx, state.View, target, taint); err != nil {
			return err
		}
	}
	return nil
}
