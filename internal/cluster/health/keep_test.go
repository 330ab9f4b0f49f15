package health_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/health"
)

// TestKeep: of the status of containers, only the health of resources is kept, and of claims the
// conditions of broken devices, and of those with binding conditions.
func TestKeep(t *testing.T) {
	keep := health.Keep(func(object any) (any, error) {
		switch object := object.(type) {
		case *corev1.Pod:
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: object.Name}}, nil
		case *resourceapi.ResourceClaim:
			return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: object.Name}}, nil
		}
		return object, nil
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "quiet", Image: "b"}, {Name: "c", Image: "d", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:gpu"}}}}
	kept, err := keep(pod)
	if got := kept.(*corev1.Pod).Status.ContainerStatuses; err != nil || len(got) != 1 || got[0].Name != "c" || got[0].Image != "" || len(got[0].AllocatedResourcesStatus) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	claim := func(status metav1.ConditionStatus) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Device: "gpu-0", Conditions: []metav1.Condition{{Type: "Healthy", Status: status}}}}
		return c
	}
	binding := claim(metav1.ConditionTrue)
	binding.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Device: "gpu-0", BindingConditions: []string{"example.com/attached"}, BindingFailureConditions: []string{"example.com/failed"}}}}}
	if kept, err := keep(binding); err != nil || len(kept.(*resourceapi.ResourceClaim).Status.Devices) != 1 {
		t.Errorf("conditions of a device with binding conditions: %+v, %v", kept, err)
	}
	for status, want := range map[metav1.ConditionStatus]int{metav1.ConditionTrue: 1, metav1.ConditionFalse: 1} {
		kept, err := keep(claim(status))
		if got := kept.(*resourceapi.ResourceClaim).Status.Devices; err != nil || len(got) != want {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
	}
}

// TestSameStatus: heartbeats and restarts of containers change no health.
func TestSameStatus(t *testing.T) {
	pod := func(restarts int32, h corev1.ResourceHealthStatus) *corev1.Pod {
		p := &corev1.Pod{}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", RestartCount: restarts, AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:gpu", Resources: []corev1.ResourceHealth{{ResourceID: "a", Health: h}}}}}}
		return p
	}
	if !health.SameStatus(pod(1, healthy), pod(2, healthy)) || health.SameStatus(pod(1, healthy), pod(1, unhealthy)) || health.SameStatus(&corev1.Pod{}, pod(1, healthy)) {
		t.Error("health is compared wrongly")
	}
}
