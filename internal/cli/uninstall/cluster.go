package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/charts"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/internal/controller/lease"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/internal/history"
	"github.com/dra-steward/dra-steward/internal/manager"
	"github.com/dra-steward/dra-steward/internal/text/plural"
	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// uninstall is what uninstall works with.
type uninstall struct {
	uninstallOptions
	client  kubernetes.Interface
	dynamic dynamic.Interface
	stored  *clusterread.Lister
	server  string
	out     io.Writer
	// progress shows what is read or waited for.
	progress *cmdutil.Progress
	// found is true if there was something to prepare.
	found bool
}

func (o uninstallOptions) newUninstall(streams cmdutil.Streams) (*uninstall, error) {
	config, err := o.cluster.Config(streams)
	if err != nil {
		return nil, err
	}
	u := &uninstall{uninstallOptions: o, server: config.Host, out: streams.Out}
	if u.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if u.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if u.stored, err = clusterread.NewLister(config, ""); err != nil {
		return nil, err
	}
	u.stored.Progress = o.cluster.Progress(streams, "connecting to "+config.Host)
	defer u.stored.Progress.End() // before the question
	_, err = u.stored.Minor()
	return u, err
}

// say writes a line about a write.
func (u *uninstall) say(format string, args ...any) {
	u.note(format+u.dryRun.Suffix(), args...)
}

// note writes a line about what there is.
func (u *uninstall) note(format string, args ...any) {
	u.found = true
	u.progress.Clear()
	printable.Printf(u.out, "%s\n", fmt.Sprintf(format, args...))
}

// stopController ends the controller before its objects change, since it would make again
// what is deleted.
func (u *uninstall) stopController(ctx context.Context) error {
	if stopped, err := u.scaleDown(ctx); err != nil || !stopped {
		return err
	}
	u.say("deployment %s/%s: scaled to 0", u.namespace, u.controller)
	if u.dryRun != "" {
		return nil
	}
	u.progress.Say("waiting for the controller to stop")
	holder, seen := "", &lease.Observed{}
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, u.timeout, true, func(ctx context.Context) (bool, error) {
		l, err := u.client.CoordinationV1().Leases(u.namespace).Get(ctx, u.controller, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err == nil {
			holder = seen.Holder(l.Spec, time.Now())
		}
		return err == nil && holder == "", nil
	})
	if err != nil {
		return fmt.Errorf("the controller did not stop within %s, %q holds its Lease: stop it and try again, or with a longer --timeout", u.timeout, holder)
	}
	return nil
}

// checkController returns an error if the controller has another name or namespace: it would make again what is deleted. Who
// is not allowed to list Deployments everywhere does not find it.
func (u *uninstall) checkController(ctx context.Context) error {
	if _, err := u.client.AppsV1().Deployments(u.namespace).Get(ctx, u.controller, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return nil // what comes next reports other errors
	}
	all, err := u.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=controller"})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot list Deployments: %w", err)
	}
	for _, d := range all.Items {
		if strings.HasPrefix(d.Labels["helm.sh/chart"], charts.Name+"-") {
			return fmt.Errorf("namespace %s has no Deployment %s, but namespace %s has %s, which runs the controller: set --namespace=%s --controller=%s --webhook=%s",
				u.namespace, u.controller, d.Namespace, d.Name, d.Namespace, d.Name, strings.TrimSuffix(d.Name, "-controller"))
		}
	}
	return nil
}

// scaleDown lets the controller's Deployment have no pods. It reports whether there is one.
func (u *uninstall) scaleDown(ctx context.Context) (found bool, err error) {
	deployments := u.client.AppsV1().Deployments(u.namespace)
	if u.dryRun == cmdutil.DryRunClient {
		_, err = deployments.Get(ctx, u.controller, metav1.GetOptions{})
	} else {
		_, err = deployments.Patch(ctx, u.controller, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{DryRun: u.dryRun.Write()}, "scale")
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot stop the controller: %w", err)
	}
	return true, nil
}

// cleanRules keeps or lifts the rules that are ours, and lists them.
func (u *uninstall) cleanRules(ctx context.Context) error {
	if u.stored.Rules == "" {
		return nil
	}
	rules := u.dynamic.Resource(resourceapi.SchemeGroupVersion.WithResource("devicetaintrules").GroupResource().WithVersion(u.stored.Rules))
	u.progress.Say("reading DeviceTaintRules")
	all, err := rules.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("cannot list DeviceTaintRules: %w", err)
	}
	kept := 0
	for i := range all.Items {
		rule := &all.Items[i]
		by, is := ours(rule)
		if !is {
			continue
		}
		if u.taintRules == liftRules || rule.GetName() == taints.ProbeName {
			if err = u.lift(ctx, rules, rule); err == nil {
				u.say("devicetaintrule %s (%s), of %s: deleted", rule.GetName(), describeRule(rule), by)
			}
		} else if err = u.release(ctx, rules, rule); err == nil {
			kept++
			u.say("devicetaintrule %s (%s), of %s: kept; to delete it: kubectl delete devicetaintrule %s", rule.GetName(), describeRule(rule), by, rule.GetName())
		}
		if err != nil {
			return fmt.Errorf("DeviceTaintRule %s: %w", rule.GetName(), err)
		}
	}
	if kept > 0 {
		u.note("%s kept; while a rule exists, its devices stay out of use", plural.Of(kept, "DeviceTaintRule"))
	}
	return nil
}

func (u *uninstall) lift(ctx context.Context, rules dynamic.ResourceInterface, rule *unstructured.Unstructured) error {
	if u.dryRun != "" {
		return nil
	}
	uid := rule.GetUID()
	err := rules.Delete(ctx, rule.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// drainUID is the annotation that binds a cordon to the life of its DeviceDrain: with it the
// controller of a later release would lift the rule when that drain is deleted.
const drainUID = v1alpha1.Group + "/drain-uid"

// release makes a rule independent of our objects, with which the garbage collector would
// delete it.
func (u *uninstall) release(ctx context.Context, rules dynamic.ResourceInterface, rule *unstructured.Unstructured) error {
	others := []metav1.OwnerReference{}
	for _, owner := range rule.GetOwnerReferences() {
		if !ofUs(owner.APIVersion) {
			others = append(others, owner)
		}
	}
	_, bound := rule.GetAnnotations()[drainUID]
	if u.dryRun != "" || len(others) == len(rule.GetOwnerReferences()) && !bound {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": rule.GetUID(), "resourceVersion": rule.GetResourceVersion(), "ownerReferences": others, "annotations": map[string]any{drainUID: nil}}})
	if err != nil {
		return err
	}
	_, err = rules.Patch(ctx, rule.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// listRewritten names what cannot be applied again without us.
func (u *uninstall) listRewritten(ctx context.Context) error {
	const most = 20
	found := 0
	for _, l := range []clusterread.Listing{clusterread.DRAListing("resourceclaims", "ResourceClaim", true), clusterread.DRAListing("resourceclaimtemplates", "ResourceClaimTemplate", true)} {
		err := u.stored.Each(ctx, l, func(data []byte) error {
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(data, &object); err != nil {
				return err
			}
			if object.Annotations[v1alpha1.TolerationsAnnotation] == "" {
				return nil
			}
			if found++; found <= most {
				u.note("%s %s/%s has tolerations that dra-steward rewrote: delete it before you apply its manifest again", l.Kind, object.Namespace, object.Name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if found > most {
		u.note("and %d more with rewritten tolerations", found-most)
	}
	return nil
}

// deleteRuntime deletes what was made at run time and helm does not know.
func (u *uninstall) deleteRuntime(ctx context.Context) error {
	u.progress.Say("deleting what was created at run time")
	maps, leases := u.client.CoreV1().ConfigMaps(u.namespace), u.client.CoordinationV1().Leases(u.namespace)
	names := append([]string{u.controller, manager.JournalName(u.controller)}, u.configMaps...)
	for i := range slicemerge.RecordConfigMaps {
		names = append(names, slicemerge.RecordName(manager.RecordsPrefix(u.controller), i))
	}
	for i := range history.Shards {
		names = append(names, history.ConfigMapName(history.ConfigMapPrefix(u.controller), i))
	}
	for _, name := range names {
		if err := u.delete(ctx, "configmap", name, maps.Delete, exists(maps.Get)); err != nil {
			return err
		}
	}
	return u.delete(ctx, "lease", u.controller, leases.Delete, exists(leases.Get))
}

// exists only asks for an object.
func exists[T any](get func(context.Context, string, metav1.GetOptions) (T, error)) func(context.Context, string) error {
	return func(ctx context.Context, name string) error {
		_, err := get(ctx, name, metav1.GetOptions{})
		return err
	}
}

// delete deletes an object, if there is one.
func (u *uninstall) delete(ctx context.Context, kind, name string, remove func(context.Context, string, metav1.DeleteOptions) error, exists func(context.Context, string) error) (err error) {
	if u.dryRun == cmdutil.DryRunClient {
		err = exists(ctx, name)
	} else {
		err = remove(ctx, name, metav1.DeleteOptions{DryRun: u.dryRun.Write()})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		u.say("%s %s/%s: deleted", kind, u.namespace, name)
	}
	return err
}
