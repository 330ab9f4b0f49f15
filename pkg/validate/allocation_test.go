package validate

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestAllocationTolerationsOfManifests: a manifest may leave out the operator that the API
// server defaults, in the request and in the allocation.
func TestAllocationTolerationsOfManifests(t *testing.T) {
	claim := func(request, allocated resourceapi.DeviceTolerationOperator) *resourceapi.ResourceClaim {
		toleration := func(operator resourceapi.DeviceTolerationOperator) []resourceapi.DeviceToleration {
			return []resourceapi.DeviceToleration{{Key: "example.com/a", Operator: operator, Effect: resourceapi.DeviceTaintEffectNoExecute}}
		}
		return &resourceapi.ResourceClaim{
			Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
				{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{Tolerations: toleration(request)}},
			}}},
			Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Tolerations: toleration(allocated)}},
			}}},
		}
	}
	const none, equal, exists = "", resourceapi.DeviceTolerationOpEqual, resourceapi.DeviceTolerationOpExists
	for _, test := range []struct {
		request, allocated resourceapi.DeviceTolerationOperator
		errors             int
	}{{none, equal, 0}, {equal, none, 0}, {none, none, 0}, {none, exists, 1}, {exists, none, 1}} {
		if errs := allocationTolerations(claim(test.request, test.allocated), Pass{}); len(errs) != test.errors {
			t.Errorf("request %q, allocation %q: %v", test.request, test.allocated, errs)
		}
	}
}
