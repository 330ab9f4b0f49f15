package podresources_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// Attribute joins the kubelet's answer with pods and claims: which container has which device.
func ExampleAttribute() {
	name := "training"
	listing := &podresources.Listing{Pods: []*kubelet.PodResources{{
		Namespace: "ml", Name: "worker",
		Containers: []*kubelet.ContainerResources{{Name: "main", DynamicResources: []*kubelet.DynamicResource{{
			ClaimNamespace: "ml", ClaimName: name,
			ClaimResources: []*kubelet.ClaimResource{{DriverName: "gpu.example.com", PoolName: "node-1", DeviceName: "gpu-0"}},
		}}}},
	}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "worker", UID: "1"},
		Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}},
			Containers:     []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
		},
	}
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name},
		Status: resourceapi.ResourceClaimStatus{
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "worker", UID: "1"}},
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}},
			}},
		},
	}
	for _, h := range podresources.Attribute(podresources.Input{Listing: listing, Pods: []*corev1.Pod{pod}, Claims: []*resourceapi.ResourceClaim{claim}}) {
		fmt.Println(h.Pod, h.Container, h.Device, h.Claim, h.Request)
	}
	// Output: worker main gpu-0 training gpu
}

// The client connects on its first call. The kubelet need not run before.
func ExampleNew() {
	client := podresources.New(podresources.Options{Socket: "/does/not/exist.sock"})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := client.List(ctx, time.Time{})
	fmt.Println(err != nil)
	// Output: true
}
