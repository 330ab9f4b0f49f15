package apiserver_test

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/cost/selector/hostile"
	"github.com/dra-steward/dra-steward/pkg/validate/apiserver"
)

// TestHostileSelectorsEnd: the rules of the API server compile every expression soon, or leave it.
func TestHostileSelectorsEnd(t *testing.T) {
	for _, expression := range hostile.Expressions() {
		claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}}}}}}
		if took := hostile.Takes(func() { apiserver.ResourceClaim().Validate(claim, apiserver.Conditions{}) }); took > 4*hostile.Within {
			t.Errorf("%.200s: takes %v", expression, took)
		}
	}
}
