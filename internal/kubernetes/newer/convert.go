package newer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// Convert reads an object of the dynamic client as *T. A ResourceSlicePatch with a number that cannot be read has no
// specification, and [quantity.Unreadable] says which: it must not keep others from being read.
func Convert[T any](object *unstructured.Unstructured) (*T, error) {
	out, fields := new(T), object.Object
	patch, isPatch := any(out).(*v1alpha1.ResourceSlicePatch)
	unreadable := ""
	if isPatch {
		if unreadable = unreadableCapacity(fields); unreadable != "" {
			fields = maps.Clone(fields)
			delete(fields, "spec")
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out); err != nil {
		return nil, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	if unreadable != "" {
		metav1.SetMetaDataAnnotation(&patch.ObjectMeta, quantity.Unreadable, unreadable)
	}
	if rule, is := any(out).(*resourceapi.DeviceTaintRule); is {
		spec, _ := object.Object["spec"].(map[string]any)
		selector, _ := spec["deviceSelector"].(map[string]any)
		if all := selector["all"]; all != nil && all != false {
			rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{}
		}
	}
	return out, nil
}

// unreadableCapacity returns which capacity of a patch cannot be read, "" for none: the pattern in
// its CustomResourceDefinition accepts more than quantities are.
func unreadableCapacity(fields map[string]any) string {
	capacity, _, _ := unstructured.NestedMap(fields, "spec", "devices", "capacity")
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		text, err := json.Marshal(capacity[name])
		if err != nil || quantity.Unmarshal(text, &resourceapi.DeviceCapacity{}) != nil {
			return fmt.Sprintf("spec.devices.capacity[%s]: %.200s has a number that is no quantity: correct it", name, text)
		}
	}
	return ""
}
