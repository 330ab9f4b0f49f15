package installed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// TestUninstallWithPatches is helm uninstall while a patch is written into the slices of a
// driver that lives on, and a drain cordons a device: webhook, controller and the pod of the
// hook are real and have the rights of their accounts. A minute later the driver's slice is
// as the driver wants it, and of all objects of all types in the cluster none is ours but
// the rule that was listed. The driver waits 30 s before it writes, and so has not taken the
// patched value over when it is taken out.
func TestUninstallWithPatches(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("a driver waits 30 s before it writes, and the cluster is looked at for a minute after; make test-long runs it")
	}
	values := quick()
	values["patches"], values["crds"] = map[string]any{"mode": "materialize"}, map[string]any{"keep": false}
	c, clients := install(t, values)
	publishes(t)
	create(t, c, "ResourceSlicePatch", "rack", `{"devices": {"filter": {"driver": "gpu.example.com"}, "attributes": {"gpu.example.com/model": {"string": "patched"}}}}`)
	create(t, c, "DeviceDrain", "firmware", `{"devices": [{"driver": "gpu.example.com", "pool": "uninstall", "device": "gpu-0"}]}`)
	eventually(t, "the patch is in the slice", func(ctx context.Context) error { return models(ctx, clients, "patched") })
	var rule string
	eventually(t, "the device is cordoned", func(ctx context.Context) (err error) {
		rule, err = cordon(ctx, c)
		return err
	})

	upgrading(t, func() {
		uninstall := action.NewUninstall(newHelm(t, clients).config)
		uninstall.Timeout = 5 * time.Minute
		_, err := uninstall.Run(name)
		must(t, err)
	})
	ended := time.Now()
	said := hookLog()
	t.Logf("the hook said:\n%s", said)
	for _, want := range []string{"1 patched value to remove from ResourceSlices", "to delete it: kubectl delete devicetaintrule " + rule} {
		if !strings.Contains(said, want) {
			t.Errorf("the hook did not say %q", want)
		}
	}
	must(t, models(t.Context(), clients, "own"))
	eventually(t, "nothing of ours is left", func(ctx context.Context) error { return nothingLeft(ctx, rule) })
	t.Logf("nothing was left %v after helm uninstall", time.Since(ended).Round(time.Millisecond))
	<-time.After(time.Until(ended.Add(time.Minute))) // what may come back within it
	must(t, models(t.Context(), clients, "own"))
	must(t, nothingLeft(t.Context(), rule))
	lifted := &unstructured.Unstructured{}
	lifted.SetGroupVersionKind(cluster.DeviceTaintRules().GroupVersion().WithKind("DeviceTaintRule"))
	lifted.SetName(rule)
	must(t, c.Delete(t.Context(), lifted))
}

// publishes runs a driver with one device.
func publishes(t *testing.T) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(cluster.Config())
	must(t, err)
	plugin, err := resourceslice.StartController(context.WithoutCancel(t.Context()), resourceslice.Options{
		DriverName: driver, KubeClient: clients, ErrorHandler: func(_ context.Context, err error, what string) { t.Logf("the driver: %s: %v", what, err) },
		Resources: &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{"uninstall": {AllNodes: true, Slices: []resourceslice.Slice{{
			Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: new("own")}}}}}}}}},
	})
	must(t, err)
	t.Cleanup(func() {
		plugin.Stop()
		_ = clients.ResourceV1().ResourceSlices().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + driver})
	})
}

// create makes an object of a type of ours, when the type is served.
func create(t *testing.T, c client.Client, kind, name, spec string) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "dra-steward.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": name}}}
	var content map[string]any
	must(t, json.Unmarshal([]byte(spec), &content))
	object.Object["spec"] = content
	eventually(t, "a "+kind+" can be made", func(ctx context.Context) error { return c.Create(ctx, object) })
}

// models is nil if the device's model is this one, in every slice.
func models(ctx context.Context, clients kubernetes.Interface, want string) error {
	all, err := clients.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + driver})
	if err != nil {
		return err
	}
	if len(all.Items) != 1 || len(all.Items[0].Spec.Devices) != 1 {
		return fmt.Errorf("%d slices", len(all.Items))
	}
	if got := all.Items[0].Spec.Devices[0].Attributes["model"].StringValue; got == nil || *got != want {
		return fmt.Errorf("the model is %v, want %s", all.Items[0].Spec.Devices[0].Attributes, want)
	}
	return nil
}

// cordon returns the name of the drain's rule.
func cordon(ctx context.Context, c client.Client) (string, error) {
	rules := &unstructured.UnstructuredList{}
	rules.SetGroupVersionKind(cluster.DeviceTaintRules().GroupVersion().WithKind("DeviceTaintRuleList"))
	if err := c.List(ctx, rules, client.MatchingLabels{"dra-steward.io/drain": "firmware"}); err != nil {
		return "", err
	}
	if len(rules.Items) != 1 {
		return "", fmt.Errorf("%d rules", len(rules.Items))
	}
	return rules.Items[0].GetName(), nil
}

// hookLog is what the pods of the hook have logged.
func hookLog() string {
	return kubelet.Logs("dra-steward-uninstall-*")
}

// nothingLeft looks at every object of every type that the cluster serves. Only the
// namespace, what it was written by and what happened to it may still speak of us, and the
// rule.
func nothingLeft(ctx context.Context, rule string) error {
	config := cluster.Config()
	config.WarningHandler = rest.NoWarnings{}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	all, err := found.ServerPreferredResources()
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var left []error
	for _, list := range all {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "namespaces" || resource.Name == "events" {
				continue
			}
			objects, err := untyped.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("%s %s: %w", list.GroupVersion, resource.Name, err)
			}
			for i := range objects.Items {
				if object := &objects.Items[i]; speaksOfUs(object) && (resource.Name != "devicetaintrules" || object.GetName() != rule) {
					left = append(left, fmt.Errorf("%s %s/%s", resource.Name, object.GetNamespace(), object.GetName()))
				}
			}
		}
	}
	return errors.Join(left...)
}

// speaksOfUs says whether our name is anywhere in an object but in its namespace, and in
// what a slice remembers of values that it had, which is not read any more and ends
// with the slice.
func speaksOfUs(object *unstructured.Unstructured) bool {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	object.SetNamespace("")
	if object.GetKind() == "ResourceSlice" {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", record.Annotation)
	}
	text, err := json.Marshal(object.Object)
	return err != nil || strings.Contains(string(text), "dra-steward")
}
