package devicedrain_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestShare: the share of the devices is that of the devices that claims hold, as the guard
// counts it; free devices affect no pod.
func TestShare(t *testing.T) {
	for held, want := range map[int]string{1: "", 2: "50 % of the devices of the drivers are more than the threshold of 25 %"} {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		slice.Spec.Driver, slice.Spec.Pool = "gpu.example.com", resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1}
		d, holders := &v1alpha1.DeviceDrain{}, &usage.Index{}
		for i := range 4 {
			name := fmt.Sprintf("gpu-%d", i)
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: name})
			d.Spec.Devices = append(d.Spec.Devices, v1alpha1.DeviceName{Driver: slice.Spec.Driver, Pool: "node-1", Device: name})
			if i >= held {
				continue
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("pod-" + name)}, Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}}}
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}}
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: slice.Spec.Driver, Pool: "node-1", Device: name}}}}
			holders.SetClaim(claim)
			holders.SetPod(pod)
		}
		view := tracker.Merge(slice)
		in := drain.Gather(d, view, holders, drain.Published(view, holders))
		in.Thresholds = guard.DefaultThresholds()
		blocked := meta.FindStatusCondition(drain.Decide(in).Status.Conditions, v1alpha1.DrainBlocked)
		if blocked == nil || !strings.Contains(blocked.Message, want) || (blocked.Reason == v1alpha1.BlockedThreshold) != (want != "") {
			t.Errorf("%d of 4 devices held: %+v, want %q", held, blocked, want)
		}
	}
}
