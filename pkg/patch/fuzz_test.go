package patch

import (
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
)

// FuzzDecoded applies whatever can be decoded, valid or not.
func FuzzDecoded(f *testing.F) {
	const slice = `{"metadata":{"name":"s"},"spec":{"driver":"gpu.example.com","pool":{"name":"p"},"devices":[{"name":"a","attributes":{"model":{"string":"x"},"n":{"int":1}},"capacity":{"memory":{"value":"1Gi","requestPolicy":{"default":"2Gi","validValues":["2Gi"]}}}}]}}`
	f.Add(slice, `[{"metadata":{"name":"p"},"spec":{"devices":{"priority":3,"attributes":{"gpu.example.com/model":{"null":{}},"x.io/a":{"version":"1.2.3"}},"capacity":{"gpu.example.com/memory":{"value":"1"}}}}}]`)
	f.Add(slice, `[{"spec":{"devices":{"filter":{"deviceClassName":"c","selectors":[{},{"cel":{"expression":"device.x"}}]}}}},{"spec":{"devices":{"attributes":{"":{},"/":{"ints":[]},"a/b/c":{"null":{},"bool":true}}}}}]`)
	f.Add(`{"spec":{"devices":[{},{}]}}`, `[{"spec":{"devices":{"filter":{"driver":"","device":"","selectors":[{"cel":{"expression":"1"}}]},"capacity":{"x.io/c":{"value":"0","requestPolicy":{"validRange":{}}}}}}}]`)
	f.Fuzz(func(t *testing.T, slice, patches string) {
		if len(slice)+len(patches) > 1<<14 {
			t.Skip()
		}
		s := &resourceapi.ResourceSlice{}
		var objects []*v1alpha1.ResourceSlicePatch
		if quantity.Unmarshal([]byte(slice), s) != nil || quantity.Unmarshal([]byte(patches), &objects) != nil {
			t.Skip()
		}
		var c Compiler
		var compiled []*Patch
		for _, o := range objects {
			if o == nil {
				t.Skip()
			}
			compiled = append(compiled, c.Compile(o, nil))
		}
		before := s.DeepCopy()
		result := Apply(s, compiled)
		if !reflect.DeepEqual(before, s) {
			t.Fatal("the published slice was changed")
		}
		if again := Apply(s, compiled); !reflect.DeepEqual(again.Slice, result.Slice) {
			t.Fatal("applied twice to the published slice, another result")
		}
		for i, d := range result.Slice.Spec.Devices {
			if n := namesOf(d); n > maxNames && n > namesOf(s.Spec.Devices[i]) {
				t.Fatalf("device %d has %d names", i, n)
			}
			for key := range result.Device(i) {
				_ = key.Name.String() + key.Effect.String()
			}
		}
		result.Reports()
	})
}
