package tracker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

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
