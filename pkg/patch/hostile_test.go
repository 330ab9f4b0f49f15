package patch_test

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// TestHostileSelectorsEnd holds that the selectors of patches and drains end soon, and that
// what is too expensive is a problem or a failure.
func TestHostileSelectorsEnd(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s1"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: hostile.Driver, Pool: resourceapi.ResourcePool{Name: "n1", ResourceSliceCount: 1}, Devices: []resourceapi.Device{hostile.Device("gpu-0")}}}
	var compiler patch.Compiler
	for _, expression := range hostile.Expressions() {
		selector := &v1alpha1.DrainSelector{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}
		took := hostile.Takes(func() {
			found := compiler.Select(selector, slices.Values([]*resourceapi.ResourceSlice{slice}), 0)
			if len(found.Problems) == 0 && found.Failures.Devices == 0 || len(found.Devices) > 0 {
				t.Errorf("%.200s: got %+v, want a problem or a failure", expression, found)
			}
		})
		if took > 2*hostile.Within { // no context ends it
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}
