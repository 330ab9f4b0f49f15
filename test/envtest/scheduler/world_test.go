// Package scheduler_test runs dra-steward-scheduler in the place of kube-scheduler on a
// real control plane.
package scheduler_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/envtest"
	"github.com/dra-steward/dra-steward/test/envtest/assets"
	"github.com/dra-steward/dra-steward/tools/build"
)

const driver = "gpu.example.com"

// program builds the scheduler, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	cache, err := assets.DefaultCache()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "bin", "dra-steward-scheduler")
	const tree = "../../.."
	ctx := context.Background()
	stamp, err := build.Read(ctx, tree)
	if err != nil {
		return "", err
	}
	return file, build.Program(ctx, build.Options{Tree: tree, Program: build.Scheduler, Output: file, Stamp: stamp})
})

// world is a cluster with our scheduler.
type world struct {
	*envtest.Cluster
	kubernetes.Interface
	patches, crds dynamic.ResourceInterface
}

// patched is the part of a configuration that gives a profile our plugin.
const patched = `
  plugins:
    multiPoint:
      disabled: [{name: DynamicResources}, {name: DefaultPreemption}]
      enabled: [{name: PatchedDynamicResources, weight: 2}, {name: DefaultPreemption}]
`

// start starts a control plane with our scheduler.
func start(t testing.TB, configuration string, nodes ...string) *world {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, envtest.Options{
		Scheduler: true, Nodes: nodes, SchedulerProgram: file, SchedulerArgs: map[string][]string{"sole-scheduler": {"true"}},
		SchedulerConfiguration: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" + configuration,
	})
}

// startWith starts a control plane.
func startWith(t testing.TB, options envtest.Options) *world {
	t.Helper()
	options.Kubernetes = cmp.Or(options.Kubernetes, "1.37") // a scheduler must not be newer than its API server
	options.ControllerManager, options.Dir, options.Output = true, t.TempDir(), t.Output()
	cluster, err := envtest.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(cluster.Log(assets.Scheduler))
			t.Logf("the scheduler's log:\n%s", log[max(0, len(log)-6000):])
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &world{Cluster: cluster}
	config := cluster.Config()
	config.QPS = -1
	if w.Interface, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w.patches = untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))
	w.crds = untyped.Resource(crds)
	return w
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// installType installs ResourceSlicePatch as the chart ships it.
func (w *world) installType(t testing.TB) {
	t.Helper()
	text, err := os.ReadFile("../../../charts/dra-steward/files/crds/dra-steward.io_resourceslicepatches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		t.Fatal(err)
	}
	if _, err := w.crds.Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the type is served", func() bool {
		_, err := w.patches.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// grant lets the scheduler read patches.
func (w *world) grant(t testing.TB) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "patches"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"dra-steward.io"}, Resources: []string{"resourceslicepatches"}, Verbs: []string{"list", "watch"}},
	}}
	if _, err := w.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "patches"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "patches"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:kube-scheduler"}}}
	if _, err := w.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// publish publishes devices of one node, and a class of the driver's devices.
func (w *world) publish(t testing.TB, node string, devices ...resourceapi.Device) {
	t.Helper()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
	}}
	if _, err := w.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: devices,
	}}
	if _, err := w.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ask creates a claim with a selector and a pod that uses it.
func (w *world) ask(t testing.TB, name, profile, selector string) {
	t.Helper()
	w.askWith(t, name, profile, selector, func(*corev1.Pod) {})
}

// askWith also changes the pod.
func (w *world) askWith(t testing.TB, name, profile, selector string, change func(*corev1.Pod)) {
	t.Helper()
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	if selector != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: exactly}}},
	}}
	if _, err := w.ResourceV1().ResourceClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := plainPod(name, profile)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	change(pod)
	w.create(t, pod)
}

func plainPod(name, profile string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		SchedulerName: profile, TerminationGracePeriodSeconds: ptr.To[int64](0),
		Containers: []corev1.Container{{Name: "c", Image: "none"}},
	}}
}

func (w *world) create(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	if _, err := w.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// device returns the device of a pod that is bound, "" if it is not.
func (w *world) device(t testing.TB, name string) string {
	t.Helper()
	pod, err := w.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim, err := w.ResourceV1().ResourceClaims("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName == "" || claim.Status.Allocation == nil {
		return ""
	}
	result := claim.Status.Allocation.Devices.Results[0]
	return result.Pool + "/" + result.Device
}

// isPending waits until the scheduler has said that there is no device for a pod.
func (w *world) isPending(t testing.TB, name string) {
	t.Helper()
	eventually(t, name+" is unschedulable", func() bool {
		pod, err := w.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return false
	})
}

// isBound waits until a pod is bound and returns its device.
func (w *world) isBound(t testing.TB, name string) (device string) {
	t.Helper()
	eventually(t, name+" is bound", func() bool { device = w.device(t, name); return device != "" })
	return device
}

// patch creates a ResourceSlicePatch with the YAML of spec.devices.
func (w *world) patch(t testing.TB, name, devices string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{apiVersion: dra-steward.io/v1alpha1, kind: ResourceSlicePatch, metadata: {name: "+name+"}, spec: {devices: "+devices+"}}"), object); err != nil {
		t.Fatal(err)
	}
	if _, err := w.patches.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) unpatch(t testing.TB, name string) {
	t.Helper()
	if err := w.patches.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		return holds(), nil
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func attribute(value string) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &value}}
}

func memory(quantity string) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	return map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(quantity)}}
}
