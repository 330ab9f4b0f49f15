package newer

import (
	"encoding/json"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
		var decoded, converted resourceapi.DeviceTaintRule
		var object map[string]any
		for _, into := range []any{&decoded, &object} {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &converted); err != nil {
			t.Fatal(err)
		}
		Decode(data, &decoded)
		Convert(object, &converted)
		for how, rule := range map[string]resourceapi.DeviceTaintRule{"decoded": decoded, "converted": converted} {
			selector := rule.Spec.DeviceSelector
			if got := selector != nil && *selector == (resourceapi.DeviceTaintSelector{}); got != want {
				t.Errorf("%s, %s: selects every device: %t, want %t", data, how, got, want)
			}
		}
	}
	class := resourceapi.DeviceClass{}
	Convert(map[string]any{"spec": map[string]any{"deviceSelector": map[string]any{"all": true}}}, &class) // has no selector
}
