package guard_test

import (
	"context"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestPatches tries a patch on the devices that exist, and denies one whose expression
// does not compile, which the schema of the type cannot see.
func TestPatches(t *testing.T) {
	_, c, _ := guarded(t, nil)
	config, seen := cluster.Config(), &warnings{}
	config.WarningHandler = seen
	all, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	patches := all.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))
	patch := func(filter, attributes map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.ResourceSlicePatchKind,
			"metadata": map[string]any{"name": "tried"},
			"spec":     map[string]any{"devices": map[string]any{"filter": filter, "attributes": attributes}},
		}}
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	model := "A100"
	s := slice("patched", resourceapi.Device{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}})
	if _, err := c.ResourceV1().ResourceSlices().Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer c.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(t.Context()), "patched", metav1.DeleteOptions{})

	// kubectl writes it as
	// Warning: matches 1 device in 1 ResourceSlice: replaces gpu.example.com/model in 1 (dra-steward rule patch-effect)
	const want = "matches 1 device in 1 ResourceSlice: replaces gpu.example.com/model in 1 (dra-steward rule patch-effect)"
	eventually(t, "the informer has seen the slice", func(ctx context.Context) (bool, error) {
		_, err := patches.Create(ctx, patch(map[string]any{"driver": driver, "device": "gpu-0"},
			map[string]any{"gpu.example.com/model": map[string]any{"string": "A100-80GB"}}), dry)
		return seen.take() == want, err
	})
	_, err = patches.Create(t.Context(), patch(map[string]any{"driver": driver, "device": "gpu-0"},
		map[string]any{"gpu.example.com/model": map[string]any{"int": int64(100)}}), dry)
	if got := seen.take(); err != nil || !strings.Contains(got, "has another type than the driver's value on 1 device") || !strings.Contains(got, "patch-outcome") {
		t.Errorf("%v, warnings %q", err, got)
	}
	_, err = patches.Create(t.Context(), patch(map[string]any{"selectors": []any{map[string]any{"cel": map[string]any{"expression": "device.model == 1"}}}},
		map[string]any{"gpu.example.com/model": map[string]any{"null": map[string]any{}}}), dry)
	wantDenied(t, err, "spec.devices.filter.selectors[0].cel.expression", "undefined field 'model'", "patch-expression")

	// Another patch of a higher priority counts, from its own update on as well.
	other := patch(map[string]any{"pool": s.Spec.Pool.Name}, map[string]any{"gpu.example.com/model": map[string]any{"string": "H100"}})
	other.SetName("winner")
	other.Object["spec"].(map[string]any)["devices"].(map[string]any)["priority"] = int64(5)
	if _, err := patches.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer patches.Delete(context.WithoutCancel(t.Context()), "winner", metav1.DeleteOptions{})
	tried := func(ctx context.Context) (string, error) {
		seen.take()
		_, err := patches.Create(ctx, patch(map[string]any{"driver": driver, "device": "gpu-0"},
			map[string]any{"gpu.example.com/model": map[string]any{"string": "A100-80GB"}}), dry)
		return seen.take(), err
	}
	eventually(t, "the other patch counts", func(ctx context.Context) (bool, error) {
		got, err := tried(ctx)
		return strings.Contains(got, "is set by another patch on 1 device, first winner: set a higher priority to win") &&
			strings.Contains(got, "matches 1 device in 1 ResourceSlice: changes nothing"), err
	})
	if err := patches.Delete(t.Context(), "winner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other patch is gone", func(ctx context.Context) (bool, error) {
		got, err := tried(ctx)
		return got == want, err
	})
}
