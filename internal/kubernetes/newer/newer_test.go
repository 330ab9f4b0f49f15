package newer

import (
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// TestAll: both ways of reading agree on which selectors select every device.
func TestAll(t *testing.T) {
	for selector, want := range map[string]bool{
		`{}`:           true,
		`{"all":true}`: true,
		`{"all":true,"driver":"gpu.example.com"}`:  true,
		`{"all":{},"device":"gpu-0"}`:              true,
		`{"all":0,"device":"gpu-0"}`:               true,
		`{"all":"","device":"gpu-0"}`:              true,
		`{"all":false,"driver":"gpu.example.com"}`: false,
		`{"all":null,"driver":"gpu.example.com"}`:  false,
		`{"All":true,"driver":"gpu.example.com"}`:  false,
		`null`: false,
	} {
		data := []byte(`{"spec":{"deviceSelector":` + selector + `}}`)
		var decoded resourceapi.DeviceTaintRule
		var object map[string]any
		for _, into := range []any{&decoded, &object} {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		Decode(data, &decoded)
		converted, err := Convert[resourceapi.DeviceTaintRule](&unstructured.Unstructured{Object: object})
		if err != nil {
			t.Fatal(err)
		}
		for how, rule := range map[string]resourceapi.DeviceTaintRule{"decoded": decoded, "converted": *converted} {
			selector := rule.Spec.DeviceSelector
			if got := selector != nil && *selector == (resourceapi.DeviceTaintSelector{}); got != want {
				t.Errorf("%s, %s: selects every device: %t, want %t", data, how, got, want)
			}
		}
	}
}

// TestUnreadable: a patch with a number that cannot be read is read without its specification, and says which number. What
// is no object of the type is an error with its name.
func TestUnreadable(t *testing.T) {
	for value, want := range map[string]string{"80Gi": "", "1e1.5": "spec.devices.capacity[x.io/memory]: ", "1e-999999999": "spec.devices.capacity[x.io/memory]: "} {
		stored := &unstructured.Unstructured{Object: map[string]any{
			"kind": "ResourceSlicePatch", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"devices": map[string]any{"capacity": map[string]any{"x.io/memory": map[string]any{"value": value}}}},
		}}
		patch, err := Convert[v1alpha1.ResourceSlicePatch](stored)
		if err != nil {
			t.Fatal(err)
		}
		said := patch.Annotations[quantity.Unreadable]
		if !strings.HasPrefix(said, want) || (said == "") != (want == "") || (len(patch.Spec.Devices.Capacity) == 0) != (want != "") {
			t.Errorf("%s: %q, capacity %v", value, said, patch.Spec.Devices.Capacity)
		}
	}
	_, err := Convert[v1alpha1.ResourceSlicePatch](&unstructured.Unstructured{Object: map[string]any{"kind": "ResourceSlicePatch", "metadata": map[string]any{"name": "a"}, "spec": true}})
	if err == nil || !strings.Contains(err.Error(), `ResourceSlicePatch "a"`) {
		t.Error(err)
	}
}
