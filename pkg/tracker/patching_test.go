package tracker

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// color makes a patch that sets the attribute example.com/color.
func color(name, value string, selectors ...string) *v1alpha1.ResourceSlicePatch {
	return &v1alpha1.ResourceSlicePatch{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("patch-" + name), Generation: 1},
		Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
			Filter: &v1alpha1.DevicePatchFilter{Selectors: cel(selectors...)},
			Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
				"example.com/color": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &value}}},
		}},
	}
}

// TestPatchProvenance shows which patch decided.
func TestPatchProvenance(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{
		{SliceKind, "s"}: slice("s", "d", "p", "dev0", "dev1"),
		{PatchKind, "a"}: color("a", "red", isDev1),
		{PatchKind, "b"}: color("b", "blue", isDev1),
		{RuleKind, "r"}:  taintRule("r", selector("d", "", "")),
	})
	device, _ := s.current.Device("d", "p", "dev1")
	var got []string
	for key := range device.Patched() {
		got = append(got, fmt.Sprint(key.Name, " ", key.Effect, " by ", key.Winner.Object.Name, " not ", key.Suppressed[0].Object.Name))
	}
	if got := strings.Join(got, "; "); got != "attributes[example.com/color] Added by a not b" {
		t.Error(got)
	}
	if got := device.Merged(); *got.Attributes["example.com/color"].StringValue != "red" || len(got.Taints) != 1 {
		t.Errorf("%v", got)
	}
	device, _ = s.current.Device("d", "p", "dev0")
	for key := range device.Patched() {
		t.Errorf("dev0 is patched: %v", key.Name)
	}
	if len(device.Published().Attributes) != 1 || len(device.Merged().Taints) != 1 {
		t.Error("dev0 has what it should not")
	}
}

// TestStatusOfPatches: a write of the status compiles nothing and calls no handler.
func TestStatusOfPatches(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "dev1"), {PatchKind, "a"}: color("a", "red", isDev1)})
	compiled := s.patches.Get("a")
	written := color("a", "red", isDev1)
	written.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PatchApplied}}
	if deltas := s.apply(map[objectKey]any{{PatchKind, "a"}: written}); len(deltas) != 0 || s.patches.Get("a") != compiled {
		t.Errorf("%d events", len(deltas))
	}
	if s.current.patch("a") != written || s.current.Rule("a") != nil {
		t.Error("the snapshot has not the newest version")
	}
}

// TestPatchReports counts slices and devices.
func TestPatchReports(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{
		{SliceKind, "s"}: slice("s", "d", "p", "dev0", "dev1"), {SliceKind, "t"}: slice("t", "d", "q", "dev1"),
		{PatchKind, "a"}: color("a", "red", isDev1), {PatchKind, "b"}: color("b", "red"),
	})
	var got []string
	for _, r := range s.current.PatchReports() {
		got = append(got, fmt.Sprint(r.Patch.Name, " ", r.Report.Slices, " ", r.Report.Devices, " ", slices.ContainsFunc(r.Report.Keys(), func(k patch.KeyReport) bool { return k.Tied > 0 })))
	}
	if got := strings.Join(got, ", "); got != "a 2 2 false, b 2 3 true" {
		t.Error(got)
	}
}

// TestConvertAll: a rule for "all" (kubernetes#142287), which the types of 1.37 do not have, is
// kept as one for every device, so that no device counts less than the API server counts it.
func TestConvertAll(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"kind": "DeviceTaintRule", "metadata": map[string]any{"name": "all"},
		"spec": map[string]any{"deviceSelector": map[string]any{"all": true, "driver": "gpu.example.com"}},
	}}
	converted, err := convert[resourceapi.DeviceTaintRule](object)
	if err != nil {
		t.Fatal(err)
	}
	got := converted.(*resourceapi.DeviceTaintRule).Spec.DeviceSelector
	if got == nil || *got != (resourceapi.DeviceTaintSelector{}) {
		t.Errorf("the selector is %+v, want that of every device", got)
	}
}

// TestUnreadableQuantity: a patch with a number that its CustomResourceDefinition accepts and that is no
// quantity applies to no device, and says so. The other patches are read.
func TestUnreadableQuantity(t *testing.T) {
	definition, err := os.ReadFile("../../charts/dra-steward/files/crds/dra-steward.io_resourceslicepatches.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(string(regexp.MustCompile(`pattern: (\S+)\n`).FindSubmatch(definition)[1]))
	stored := func(name, memory string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion().String(), "kind": "ResourceSlicePatch", "metadata": map[string]any{"name": name},
			"spec":   map[string]any{"devices": map[string]any{"capacity": map[string]any{"x.io/" + name: map[string]any{"value": memory}}}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Accepted", "status": "True"}}},
		}}
	}
	for _, memory := range []string{"1e1.5", "1e-999999999"} {
		if !pattern.MatchString(memory) {
			t.Errorf("the CustomResourceDefinition refuses %s", memory)
		}
		resource := v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource)
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{resource: "ResourceSlicePatchList"})
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{stored("a", memory), stored("b", "80Gi")}}, nil
		})
		reader := convertingClient[v1alpha1.ResourceSlicePatch]{client: client, resources: []schema.GroupVersionResource{resource}}
		list, err := reader.list(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		objects := []any{slice("s", "d", "p", "dev")}
		for _, item := range list.(*corev1.List).Items {
			objects = append(objects, item.Object)
		}
		view := Merge(objects...)
		got := view.Get("s").Spec.Devices[0].Capacity
		if memory := got["x.io/b"].Value; len(got) != 1 || memory.String() != "80Gi" {
			t.Errorf("got %v, want the capacity of the other patch", got)
		}
		for _, r := range view.PatchReports() {
			if len(r.Patch.Status.Conditions) != 1 {
				t.Errorf("%s: the status is not read", r.Patch.Name)
			}
			switch {
			case r.Patch.Name == "b" && len(r.Problems) > 0:
				t.Errorf("b: %+v", r.Problems)
			case r.Patch.Name == "a" && (len(r.Problems) != 1 || r.Problems[0].Reason != patch.InvalidValue || !strings.Contains(r.Problems[0].Message, memory)):
				t.Errorf("a: %+v, want one with %s", r.Problems, memory)
			}
		}
	}
}
