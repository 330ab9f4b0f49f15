// Package uninstall is the command that prepares a cluster for the removal of dra-steward.
package uninstall

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	namespace, controller string
	webhook               string
	restore               bool
	configMaps            []string
	taintRules            string
	timeout               time.Duration
	dryRun                cmdutil.DryRun
	yes                   bool
	hook                  bool
	cluster               cmdutil.Client
}

// What uninstall does with the DeviceTaintRules of dra-steward.
const (
	keepRules = "keep"
	liftRules = "lift"
)

const uninstallHelp = `uninstall prepares a cluster for the removal of dra-steward, so that no objects are left
behind and no device returns to use unnoticed. The chart runs it before helm uninstall
deletes anything; run it with --dry-run for a preview. It names the cluster and asks before
it changes anything, unless --yes is set.

If patched values are written into slices (--patches), it switches webhook and controller to
restore them, and waits until no slice has a patched value and no driver can publish one
again. It stops the controller and waits until its Lease is released, deletes the ConfigMaps
and the Lease that were created at run time, and lists every DeviceTaintRule of dra-steward
that is in force, with the command that deletes it. With --taint-rules keep they stay, and
no longer depend on their DeviceDrain: deleting the drain, or its
CustomResourceDefinition, keeps them. With lift they are deleted. It does the same for the cordons
of nodes by a DeviceRoll: it lists them with the command that uncordons, or uncordons them.

It also lists claims and templates whose tolerations dra-steward has rewritten: without
dra-steward, the API server refuses their original manifests, because a spec is immutable.
The finalizer of the scheduler on claims belongs to Kubernetes, whose controller removes it.

If there is nothing to prepare, it prints that. If the controller is in another namespace or has
another name, it changes nothing and names the flags to set. With --hook, which the Job of the chart
sets, it also changes nothing unless Helm or Argo CD has installed the release.

Exit codes: 0 done, or nothing to do; 2 the command failed.`

// Command returns the command uninstall.
func Command(streams cmdutil.Streams) *cobra.Command {
	var o uninstallOptions
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Prepare a cluster for the removal of dra-steward; helm uninstall runs it",
		Long:  uninstallHelp,
		Example: `  dra-steward uninstall --namespace dra-steward --dry-run
  dra-steward uninstall --namespace dra-steward --taint-rules lift`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), streams) },
	}
	f := c.Flags()
	f.StringVarP(&o.namespace, "namespace", "n", "dra-steward", "namespace of the release")
	f.StringVar(&o.controller, "controller", "dra-steward-controller", "name of the controller's Deployment, Lease and ConfigMap")
	f.StringVar(&o.webhook, "webhook", "dra-steward", "name of the webhook's Deployment")
	f.BoolVar(&o.restore, "restore-slices", true, "first remove patched values from ResourceSlices, and wait until none is left")
	f.StringArrayVar(&o.configMaps, "config-map", nil, "additional ConfigMap to delete, created at run time (repeatable; default: that of the policies, NAME-policies with the name of --webhook)")
	f.StringVar(&o.taintRules, "taint-rules", keepRules, "what to do with the DeviceTaintRules of dra-steward, and with nodes that a DeviceRoll has cordoned: keep or lift")
	cmdutil.DurationVar(f, &o.timeout, "timeout", time.Minute, "maximum time to wait for the controller to stop")
	o.dryRun.AddFlag(c, "print the changes without making them")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.hook, "hook", false, "as the Job of the chart: change nothing unless Helm or Argo CD has installed the webhook's Deployment, because kubectl apply starts a Job at once")
	o.cluster.AddFlags(c)
	cmdutil.Complete(c, "taint-rules", []string{keepRules, liftRules})
	return c
}

func (o uninstallOptions) run(ctx context.Context, streams cmdutil.Streams) error {
	if o.taintRules != keepRules && o.taintRules != liftRules {
		return fmt.Errorf("--taint-rules %q: must be keep or lift", o.taintRules)
	}
	if o.namespace == "" || o.controller == "" {
		return errors.New("--namespace and --controller are required")
	}
	if o.configMaps == nil {
		o.configMaps = []string{o.webhook + "-policies"}
	}
	u, err := o.newUninstall(streams)
	if err != nil {
		return err
	}
	if err := u.confirm(streams); err != nil {
		return err
	}
	u.progress = o.cluster.Progress(streams, "preparing "+u.server)
	u.stored.Progress = u.progress
	defer u.progress.End()
	for _, step := range []func(context.Context) error{u.checkHook, u.checkController, u.restoreSlices, u.stopController, u.cleanRules, u.cleanNodes, u.listRewritten, u.deleteRuntime} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if !u.found {
		u.note(nothing, u.namespace, u.controller)
		return nil
	}
	u.say("done; helm uninstall deletes the rest")
	return nil
}

// nothing is what uninstall says if there is nothing to prepare, such as in the wrong namespace.
const nothing = "nothing to prepare: namespace %s has no Deployment %s and nothing that dra-steward created at run time, and no DeviceTaintRule and no " +
	"cordon of a node is from dra-steward; for a release in another namespace, set --namespace"

// confirm asks whether this is the right cluster.
func (u *uninstall) confirm(streams cmdutil.Streams) error {
	if u.yes || u.dryRun != "" {
		return nil
	}
	printable.Printf(streams.Err, "Prepare the release in namespace %s of %s for its removal? [y/N] ", u.namespace, u.server)
	var answer string
	if streams.In != nil {
		answer, _ = bufio.NewReader(streams.In).ReadString('\n') // no answer is no
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, nothing was changed; --yes does not ask, --dry-run previews")
}

// ours reports whether a DeviceTaintRule was made by dra-steward, and for whom.
func ours(rule *unstructured.Unstructured) (by string, is bool) {
	labels := rule.GetLabels()
	switch {
	case rule.GetName() == taints.ProbeName:
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

// ofUs reports whether an API version is one of ours.
func ofUs(apiVersion string) bool { return apiVersion == v1alpha1.APIVersion }

// describeRule returns the devices that a rule selects, and its taint.
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
