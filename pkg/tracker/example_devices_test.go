package tracker_test

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func published() *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1-gpus"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 3, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		},
	}
}

// Devices lists the devices of all drivers in a stable order.
func ExampleSnapshot_Devices() {
	for device := range tracker.Merge(published()).Devices() {
		fmt.Println(device.Driver(), device.Pool(), device.Name())
	}
	// Output:
	// gpu.example.com node-1 gpu-0
	// gpu.example.com node-1 gpu-1
}

// A pool is complete when all slices of its newest generation are published.
func ExampleSnapshot_CompleteGeneration() {
	generation, complete := tracker.Merge(published()).CompleteGeneration("gpu.example.com", "node-1")
	fmt.Println(generation, complete)
	// Output: 3 true
}
