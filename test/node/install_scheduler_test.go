package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/test/envtest/assets"
)

// patched is an attribute that no driver publishes.
const patched = `device.attributes["install.example.com"]`

// checkScheduler lets the scheduler of the chart replace kube-scheduler, and a pod that needs a patch get its
// device from it. Then kube-scheduler runs again.
func (r *release) checkScheduler() {
	r.Helper()
	ctx := r.Context()
	r.helm(append(r.chart("upgrade"), "--reuse-values",
		"--set", "scheduler.enabled=true", "--set", "scheduler.image.repository=dra-steward-scheduler", "--set", "scheduler.image.digest="+r.scheduler)...)
	r.checkPods("scheduler")
	if err := r.cluster.StopComponent(assets.Scheduler); err != nil {
		r.Fatal(err)
	}
	wanted := fmt.Sprintf("dev-%d", deviceCount-1)
	r.patchDevice(ctx, wanted)
	spec := claimSpec(exactly("gpu", 1))
	spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf(`"model" in %[1]s && %[1]s.model == "patched"`, patched)}}}
	r.createClaim(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "patched"}, Spec: spec})
	r.run(pod("default", "needs-a-patch", named("patched"), container("main", corev1.ResourceClaim{Name: "c"})))
	if given := r.driver.gave("default", "patched"); len(given) != 1 || given[0] != wanted {
		r.Errorf("the driver prepared %v, want %s, which the patch selects", given, wanted)
	}
	if err := r.cluster.StartComponent(ctx, assets.Scheduler); err != nil {
		r.Fatal(err)
	}
}

func (r *release) patchDevice(ctx context.Context, device string) {
	r.Helper()
	client, err := dynamic.NewForConfig(r.cluster.Config())
	if err != nil {
		r.Fatal(err)
	}
	patch := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "dra-steward.io/v1alpha1", "kind": "ResourceSlicePatch", "metadata": map[string]any{"name": "model"},
		"spec": map[string]any{"devices": map[string]any{
			"filter":     map[string]any{"driver": driverName, "pool": nodeName, "device": device},
			"attributes": map[string]any{"install.example.com/model": map[string]any{"string": "patched"}},
		}},
	}}
	patches := client.Resource(schema.GroupVersionResource{Group: "dra-steward.io", Version: "v1alpha1", Resource: "resourceslicepatches"})
	if _, err := patches.Create(ctx, patch, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}
