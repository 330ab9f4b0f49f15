package manager

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKeepClaims: where pods land is kept where something asks for it, what drivers report where reactions read it.
func TestKeepClaims(t *testing.T) {
	claim := func(annotations map[string]string, condition metav1.ConditionStatus) *resourceapi.ResourceClaim {
		return &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "claim", Annotations: annotations, Finalizers: []string{resourceapi.Finalizer}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
			Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu"}}}},
			Status: resourceapi.ResourceClaimStatus{
				Devices: []resourceapi.AllocatedDeviceStatus{{Device: "gpu-0", Conditions: []metav1.Condition{{Type: "Ready", Status: condition}}}},
				Allocation: &resourceapi.AllocationResult{NodeSelector: &corev1.NodeSelector{},
					Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Device: "gpu-0"}}}},
			}}
	}
	extended := map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	for _, test := range []struct {
		name             string
		options          Options
		claim            *resourceapi.ResourceClaim
		selector, status bool
	}{
		{name: "plain", claim: claim(nil, metav1.ConditionFalse)},
		{name: "extended", claim: claim(extended, metav1.ConditionFalse), selector: true},
		{name: "foresight", options: Options{drainForesight: true}, claim: claim(nil, metav1.ConditionFalse), selector: true},
		{name: "capacity", options: Options{capacityMetrics: true}, claim: claim(nil, metav1.ConditionFalse), selector: true},
		{name: "reactions", options: Options{reactions: true}, claim: claim(nil, metav1.ConditionFalse), status: true},
		{name: "reactions, healthy", options: Options{reactions: true}, claim: claim(nil, metav1.ConditionTrue), status: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept, err := test.options.keepClaims()(test.claim)
			if err != nil {
				t.Fatal(err)
			}
			got := kept.(*resourceapi.ResourceClaim)
			if (got.Status.Allocation.NodeSelector != nil) != test.selector || (got.Status.Devices != nil) != test.status {
				t.Errorf("kept %+v, want the node selector: %t, the status of devices: %t", got.Status, test.selector, test.status)
			}
			if got.ManagedFields != nil || len(got.Finalizers) != 1 || len(got.Spec.Devices.Requests) != 1 || len(got.Status.Allocation.Devices.Results) != 1 {
				t.Errorf("kept %+v", got)
			}
		})
	}
}
