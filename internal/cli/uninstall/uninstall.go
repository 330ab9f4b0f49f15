// Package uninstall is the command that prepares a cluster for the removal of dra-steward.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/controllers/drain"
	"github.com/dra-steward/dra-steward/internal/taints"
	"github.com/dra-steward/dra-steward/pkg/evictor"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	namespace, controller string
	webhook               string
	restore               bool
	configMaps            []string
	taintRules            string
	patience              time.Duration
	dryRun                bool
	kubeconfig            string
}

// What becomes of the DeviceTaintRules that drains and people have made with us.
const (
	keepRules = "keep"
	liftRules = "lift"
)

const uninstallHelp = `uninstall prepares a cluster for the end of dra-steward, so that nothing is stranded and no
device that was taken out of use comes back in silence. The chart runs it before helm
uninstall deletes anything; run it with --dry-run to see what it would say.

Where ResourceSlicePatches are written into slices (--patches), it switches webhook and
controller to restore them and waits until no slice holds a value of a patch and no driver
may bring one back. It stops the controller and waits until nobody holds its Lease, deletes the ConfigMaps and
the Lease that were made at run time, and lists every DeviceTaintRule of ours that is in
force, with the command that lifts it. With --taint-rules keep they stay, and no longer
depend on the DeviceDrain that they were made for: deleting that, or its type, does not lift
them any more. With lift they are deleted.

It also lists claims and templates whose tolerations dra-steward has rewritten: without it
the API server refuses the manifest that they were made from, since a spec does not change.
The finalizer of the scheduler on claims is Kubernetes' own, and its controller removes it.

Exit codes: 0 done, 2 could not do it.`

func Command(streams cmdutil.Streams) *cobra.Command {
	var o uninstallOptions
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Prepare a cluster for the end of dra-steward; helm uninstall runs it",
		Long:  uninstallHelp,
		Example: `  dra-steward uninstall --namespace dra-steward --dry-run
  dra-steward uninstall --namespace dra-steward --taint-rules lift`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), streams.Out) },
	}
	f := c.Flags()
	f.StringVar(&o.namespace, "namespace", "dra-steward", "namespace of the release")
	f.StringVar(&o.controller, "controller", "dra-steward-controller", "name of the controller's Deployment, Lease and ConfigMap")
	f.StringVar(&o.webhook, "webhook", "dra-steward", "name of the webhook's Deployment")
	f.BoolVar(&o.restore, "restore-slices", true, "take ResourceSlicePatches out of ResourceSlices first, and wait until none is left")
	f.StringArrayVar(&o.configMaps, "config-map", nil, "another ConfigMap that was made at run time, to delete (repeatable)")
	f.StringVar(&o.taintRules, "taint-rules", keepRules, "what becomes of DeviceTaintRules of ours: keep or lift")
	f.DurationVar(&o.patience, "patience", time.Minute, "how long to wait for the controller to end")
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, say what would be done")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in)")
	cmdutil.Complete(c, "taint-rules", []string{keepRules, liftRules})
	return c
}

func (o uninstallOptions) run(ctx context.Context, out io.Writer) error {
	if o.taintRules != keepRules && o.taintRules != liftRules {
		return fmt.Errorf("--taint-rules %q: must be keep or lift", o.taintRules)
	}
	if o.namespace == "" || o.controller == "" {
		return errors.New("--namespace and --controller must name something")
	}
	u, err := o.newUninstall(out)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{u.restoreSlices, u.stopController, u.settleRules, u.listRewritten, u.deleteRuntime} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "nothing else of dra-steward is in force once helm has deleted the release")
	return nil
}

// ours tells whether a DeviceTaintRule was made by dra-steward, and for whom.
func ours(rule *unstructured.Unstructured) (by string, is bool) {
	labels := rule.GetLabels()
	switch {
	case rule.GetName() == evictor.ProbeName:
		return "a probe of the controller", true
	case labels[drain.DrainLabel] != "":
		return "DeviceDrain " + labels[drain.DrainLabel], true
	case labels[taints.ManagedBy] == taints.ManagedByTaint:
		return "dra-steward taint", true
	}
	for _, owner := range rule.GetOwnerReferences() {
		if ofUs(owner.APIVersion) {
			return owner.Kind + " " + owner.Name, true
		}
	}
	return "", false
}

// ofUs tells whether an API version is one of ours.
func ofUs(apiVersion string) bool { return apiVersion == v1alpha1.APIVersion }

// describeRule says what a rule does: the devices it selects, and the taint.
func describeRule(rule *unstructured.Unstructured) string {
	taint, _, _ := unstructured.NestedStringMap(rule.Object, "spec", "taint")
	selector, _, _ := unstructured.NestedStringMap(rule.Object, "spec", "deviceSelector")
	devices := ""
	for _, part := range []string{"driver", "pool", "device"} {
		if value := selector[part]; value != "" {
			devices += " " + part + " " + value
		}
	}
	if devices == "" {
		devices = " all devices"
	}
	value := ""
	if taint["value"] != "" {
		value = "=" + taint["value"]
	}
	return fmt.Sprintf("%s%s:%s on%s", taint["key"], value, taint["effect"], devices)
}
