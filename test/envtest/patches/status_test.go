package patches_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/chart/controller"
)

// run starts the controller and returns how to end it.
func run(t *testing.T, args []string) (stop func()) {
	t.Helper()
	c, err := controller.Start(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := c.Stop(); err != nil || t.Failed() {
			t.Errorf("%v; its log:\n%s", err, c.Log())
		}
		if log := c.Log(); strings.Contains(log, "Cannot write") || strings.Contains(log, "Cannot create") {
			t.Errorf("a right is missing:\n%s", log)
		}
	})
	t.Cleanup(stop)
	return stop
}

// stored reads a patch.
func stored(t *testing.T, patches dynamic.ResourceInterface, name string) *v1alpha1.ResourceSlicePatch {
	t.Helper()
	object, err := patches.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.ResourceSlicePatch{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// conditionsOf writes the conditions that are not as they are when all is well.
func conditionsOf(p *v1alpha1.ResourceSlicePatch) string {
	var all []string
	for _, c := range p.Status.Conditions {
		if c.ObservedGeneration != p.Generation {
			return "" // of an older generation
		}
		good := c.Type == v1alpha1.PatchAccepted || c.Type == v1alpha1.PatchApplied
		if (c.Status == metav1.ConditionTrue) != good {
			all = append(all, c.Type+"="+string(c.Status)+"/"+c.Reason)
		}
	}
	if p.Status.MatchedDevices == nil {
		return ""
	}
	for _, k := range p.Status.SkippedKeys {
		all = append(all, fmt.Sprintf("%s/%s/%d", k.Name, k.Reason, k.Devices))
	}
	return fmt.Sprintf("%d devices in %d slices %s", *p.Status.MatchedDevices, *p.Status.MatchedSlices, strings.Join(all, " "))
}

// publish makes 80 slices of 125 devices with a model each.
func publish(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(cluster.Config())
	config.QPS, config.Burst = 1000, 1000
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	model := "A100"
	for i := range 80 {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)}}
		s.Spec.Driver, s.Spec.AllNodes = "gpu.example.com", new(true)
		s.Spec.Pool = resourceapi.ResourcePool{Name: fmt.Sprint("pool-", i), Generation: 1, ResourceSliceCount: 1}
		for d := range 125 {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", d),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}})
		}
		if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

const statusPatches = `
- name: status-red
  devices: {filter: {pool: pool-1}, priority: 3, attributes: {example.com/color: {string: red}}}
- name: status-blue
  devices: {filter: {pool: pool-1}, priority: 3, attributes: {example.com/color: {string: blue}}}
- name: status-bad
  devices:
    filter: {selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].missing == "x"'}}]}
    attributes: {example.com/size: {int: 1}}
- name: status-class
  devices: {filter: {deviceClassName: status-none}, attributes: {example.com/size: {int: 2}}}
- name: status-all
  devices: {attributes: {example.com/rack: {string: r1}}}
`

// TestStatus runs the controller, in the mode of a first install and with the rights of
// the chart, over 10,000 devices.
func TestStatus(t *testing.T) {
	patches := installed(t)
	c := publish(t)
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		for _, err := range []error{
			patches.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
			c.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for entry := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSpace(statusPatches), "- "), "\n- ") {
		name, spec, _ := strings.Cut(entry, "\n")
		kubectl(t, "apiVersion: dra-steward.io/v1alpha1\nkind: ResourceSlicePatch\nmetadata: {"+name+"}\nspec:\n"+spec, "create", "-f", "-")
		<-time.After(1100 * time.Millisecond) // ages have no unit below a second
	}
	args, err := controller.Install(t.Context(), cluster, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, args)
	want := map[string]string{
		"status-red":   "125 devices in 1 slices ",
		"status-blue":  "125 devices in 1 slices Applied=False/Outvoted Conflicting=True/Tied",
		"status-bad":   "0 devices in 0 slices Applied=False/NoDeviceMatches CELError=True/EvaluationFailed",
		"status-class": "0 devices in 0 slices Accepted=False/ClassNotFound Applied=False/NoDeviceMatches ClassNotFound=True/ClassNotFound",
		"status-all":   "10000 devices in 80 slices ",
	}
	until := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
			for name, is := range want {
				if got[name] = conditionsOf(stored(t, patches, name)); got[name] != is {
					return false, nil
				}
			}
			return true, nil
		}); err != nil {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	until(want)
	wantEvents := "status-bad CELError, status-blue Conflicting, status-class ClassNotFound"
	waitForEvents(t, c, wantEvents)
	table := kubectl(t, "", "get", "rsp", "status-all")
	if !strings.Contains(table, "10000") || !strings.Contains(table, "True") {
		t.Errorf("kubectl get shows\n%s", table)
	}
	kubectl(t, "", "wait", "--for=condition=Applied", "--timeout=3m", "rsp/status-all")

	// A restart writes nothing.
	stop()
	versions := map[string]string{}
	for name := range want {
		versions[name] = stored(t, patches, name).ResourceVersion
	}
	run(t, args)
	kubectl(t, "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: status-none}}", "create", "-f", "-")
	defer kubectl(t, "", "delete", "deviceclass", "status-none")
	until(map[string]string{"status-class": "10000 devices in 80 slices "})
	for name := range want {
		if now := stored(t, patches, name).ResourceVersion; now != versions[name] && name != "status-class" {
			t.Errorf("%s was written although nothing about it has changed", name)
		}
	}
	// The next generation of the wrong one.
	kubectl(t, "", "patch", "rsp", "status-bad", "--type=merge", "-p", `{"spec":{"devices":{"priority":1}}}`)
	until(map[string]string{"status-bad": want["status-bad"]})
	waitForEvents(t, c, "status-bad CELError, "+wantEvents)
}

// waitForEvents waits until the events about patches are these: they are written after the status.
func waitForEvents(t *testing.T, c kubernetes.Interface, want string) {
	t.Helper()
	got := ""
	if err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		got = eventsOf(t, c)
		return got == want, nil
	}); err != nil {
		t.Errorf("events: %q, want %q", got, want)
	}
}

// eventsOf lists the events about patches: of which, and the reason.
func eventsOf(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	events, err := c.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=" + v1alpha1.ResourceSlicePatchKind})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range events.Items {
		all = append(all, e.InvolvedObject.Name+" "+e.Reason)
		if e.Type != corev1.EventTypeWarning || e.Count != 1 || e.Reason == "CELError" && !strings.Contains(e.Message, "10000 devices") {
			t.Errorf("%s of %s, %d times: %s", e.Type, e.InvolvedObject.Name, e.Count, e.Message)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
