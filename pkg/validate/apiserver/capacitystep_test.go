package apiserver_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestGap14StepZero: a step of zero, or one that is zero in 64 bits, makes the API servers
// of 1.34 to 1.36 divide by zero. It is refused for every minor, with its place.
func TestGap14StepZero(t *testing.T) {
	for _, step := range []string{"0", "0.0", "18446744073709551616", "36893488147419103232"} {
		for minor := apiserver.OldestMinor; minor <= apiserver.NewestMinor; minor++ {
			for _, fractional := range []bool{false, true} {
				profile := apiserver.Profile{Minor: minor, Gates: map[apiserver.Gate]bool{
					"DRAConsumableCapacity": true, "DRAFractionalCapacityRange": fractional,
				}}
				quantity := resource.MustParse(step)
				slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: []resourceapi.Device{{
					Name: "gpu-0", AllowMultipleAllocations: new(true),
					Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
						Value: resource.MustParse("40Gi"),
						RequestPolicy: &resourceapi.CapacityRequestPolicy{
							Default:    new(resource.MustParse("1Gi")),
							ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: new(resource.MustParse("1Gi")), Step: &quantity},
						},
					}},
				}}}}
				found := false
				for _, err := range apiserver.ResourceSlice().Validate(slice, apiserver.Conditions{Profile: profile}) {
					found = found || err.Type == field.ErrorTypeInvalid && err.Field == "spec.devices[gpu-0].capacity[memory].requestPolicy.validRange.step"
				}
				if !found {
					t.Errorf("step %s, 1.%d, fractional %t: not refused", step, minor, fractional)
				}
			}
		}
	}
}
