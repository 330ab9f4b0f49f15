package tracker_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// ExampleMerge asks for the taints of a device, and where they come from.
func ExampleMerge() {
	snapshot := tracker.Merge(
		&resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus"},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1"},
				Devices: []resourceapi.Device{{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "gpu.example.com/hot", Effect: resourceapi.DeviceTaintEffectNone}}}},
			},
		},
		&resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: "repair"},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{},
				Taint:          resourceapi.DeviceTaint{Key: "example.com/repair", Effect: resourceapi.DeviceTaintEffectNoExecute},
			},
		},
	)
	device, found := snapshot.Device("gpu.example.com", "node-1", "gpu-0")
	if !found {
		return
	}
	for _, taint := range device.Taints() {
		fmt.Println(taint.Key, taint.Effect, taint.Source)
	}
	// Output:
	// gpu.example.com/hot None driver/gpu.example.com
	// example.com/repair NoExecute rule/repair
}
