package usage_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// training is an index with one claim that holds two devices.
func training() *usage.Index {
	index := &usage.Index{}
	index.SetClaim(&resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "training"},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{
				{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"},
				{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-1"},
			},
		}}},
	})
	return index
}

// Claims returns the holders of a device.
func ExampleIndex_Claims() {
	for _, claim := range training().Claims(usage.DeviceID{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-1"}) {
		fmt.Println(claim.Namespace, claim.Name)
	}
	// Output: ml training
}

// Count returns the number of allocated devices that a rule selects.
func ExampleIndex_Count() {
	driver, device := "gpu.example.com", "gpu-0"
	fmt.Println(training().Count(&resourceapi.DeviceTaintSelector{Driver: &driver}))
	fmt.Println(training().Count(&resourceapi.DeviceTaintSelector{Device: &device}))
	// Output:
	// 2
	// 1
}

// Trim is the transform of an informer: it drops the fields that the index does not read.
func ExampleTrim() {
	claim := "training"
	trimmed, err := usage.Trim(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "worker"},
		Spec:       corev1.PodSpec{NodeName: "node-1", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}, Containers: []corev1.Container{{Name: "main", Image: "trainer"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := trimmed.(*corev1.Pod)
	fmt.Println(pod.Name, pod.Spec.NodeName, len(pod.Spec.Containers))
	// Output: worker node-1 0
}
