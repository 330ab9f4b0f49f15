package evictor_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/evictor"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// allocated returns a claim that holds a device and tolerates its taints for five minutes.
func allocated() *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
			Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "gpu", Driver: "gpu.example.com", Pool: "node", Device: "gpu-0",
				Tolerations: []resourceapi.DeviceToleration{{
					Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300),
				}},
			}},
		}}},
	}
}

// broken taints every device with the effect NoExecute.
func broken(evictor.DeviceID) []evictor.Taint {
	return []evictor.Taint{{DeviceTaint: resourceapi.DeviceTaint{
		Key: "example.com/broken", Value: "xid-79", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: &metav1.Time{Time: now},
	}}}
}

// A claim is evicted when the shortest of its tolerations ends.
func ExampleDecide() {
	verdict := evictor.Decide(allocated(), evictor.TaintsFunc(broken), evictor.Semantics{}, now)
	fmt.Println(verdict.Explain(now))
	// Output:
	// evicted at 2026-03-01T12:05:00Z, in 5m0s
	// - device gpu.example.com/node/gpu-0 has taint example.com/broken=xid-79:NoExecute of the driver, and claim ns/claim tolerates it for 300s: due 2026-03-01T12:05:00Z
}

// claims are the claims of a cluster by namespace and name.
type claims map[string]*resourceapi.ResourceClaim

func (c claims) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return c[namespace+"/"+name]
}

// A pod that has finished uses no devices. It is not evicted.
func ExampleDecidePod() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"},
		Spec: corev1.PodSpec{
			NodeName:       "worker",
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("claim")}},
		},
	}
	held := allocated()
	held.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod"}}
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		pod.Status.Phase = phase
		verdict := evictor.DecidePod(pod, claims{"ns/claim": held}, evictor.TaintsFunc(broken), evictor.Semantics{}, now)
		fmt.Println(phase, verdict.Evict())
	}
	// Output:
	// Running true
	// Succeeded false
}

// The verdicts on several claims of a pod are one verdict: the earliest time counts.
func ExampleMerge() {
	patient := allocated()
	patient.Name = "patient"
	patient.Status.Allocation.Devices.Results[0].Tolerations[0].TolerationSeconds = ptr.To[int64](3600)
	verdict := evictor.Merge(
		evictor.Decide(allocated(), evictor.TaintsFunc(broken), evictor.Semantics{}, now),
		evictor.Decide(patient, evictor.TaintsFunc(broken), evictor.Semantics{}, now),
	)
	fmt.Println(verdict.At.Sub(now), len(verdict.Reasons))
	// Output: 5m0s 2
}
