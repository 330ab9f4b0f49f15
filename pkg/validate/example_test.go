package validate_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A driver checks a slice before it publishes it.
func Example() {
	node := "node-1"
	gpu := resourceapi.Device{Name: "gpu-0"}
	for i := range 17 {
		gpu.Taints = append(gpu.Taints, resourceapi.DeviceTaint{
			Key: fmt.Sprintf("gpu.example.com/fault-%d", i), Effect: resourceapi.DeviceTaintEffectNoSchedule,
		})
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpu"}, Spec: resourceapi.ResourceSliceSpec{
		Driver:   "gpu.example.com",
		NodeName: &node,
		Pool:     resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
		Devices:  []resourceapi.Device{gpu},
	}}
	for _, err := range validate.ResourceSlice().Validate(slice, validate.Conditions{}) {
		fmt.Println(err.Origin, err)
	}
	// Output:
	// device-taints-max spec.devices[gpu-0].taints: Too many: 17: must have at most 16 items
}
