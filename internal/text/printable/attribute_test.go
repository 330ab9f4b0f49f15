package printable_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

func TestAttribute(t *testing.T) {
	for want, a := range map[string]resourceapi.DeviceAttribute{
		"GPU-1": {StringValue: ptr.To("GPU-1")}, "1.2.3": {VersionValue: ptr.To("1.2.3")}, "-3": {IntValue: ptr.To[int64](-3)},
		"false": {BoolValue: ptr.To(false)}, "a,b": {StringValues: []string{"a", "b"}}, "1.0.0,2.0.0": {VersionValues: []string{"1.0.0", "2.0.0"}},
		"0,1": {IntValues: []int64{0, 1}}, "true,false": {BoolValues: []bool{true, false}}, "": {},
	} {
		if got := printable.Attribute(a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
