package policy

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// benchSamples are writes as they come: most of them good, with few and with many
// tolerations, and some that policies object to.
func benchSamples() []policy.Request {
	driver := "gpu.example.com"
	wildcard, forever := sampleClaim(8, 4, false), sampleClaim(2, 1, false)
	wildcard.Spec.Devices.Requests[0].Exactly.Tolerations[0].Key = ""
	forever.Spec.Devices.Requests[0].Exactly.Tolerations[0].Effect = resourceapi.DeviceTaintEffectNoExecute
	configured := sampleClaim(1, 1, false)
	configured.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver}}}}
	configured.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig"}`)
	template := &resourceapi.ResourceClaimTemplate{}
	template.Name, template.Namespace, template.Spec.Spec = "sample", "default", sampleClaim(2, 2, false).Spec
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "sample"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver},
		Taint:          resourceapi.DeviceTaint{Key: "example.com/maintenance", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	writes := []policy.Request{
		{Kind: "ResourceClaimTemplate", Name: template.Name, Namespace: template.Namespace, Object: template},
		{Kind: "DeviceTaintRule", Name: rule.Name, Object: rule},
	}
	for _, claim := range []*resourceapi.ResourceClaim{sampleClaim(1, 0, false), sampleClaim(1, 1, false), sampleClaim(8, 4, false), sampleClaim(8, 4, true), configured, forever, wildcard} {
		writes = append(writes, policy.Request{Kind: "ResourceClaim", Name: claim.Name, Namespace: claim.Namespace, Object: claim})
	}
	return writes
}

// sampleClaim has some requests with some tolerations each, the same or each another.
func sampleClaim(requests, tolerations int, distinct bool) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "default"}}
	for i := range requests {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
		for j := range tolerations {
			key := fmt.Sprintf("example.com/fault-%d", j)
			if distinct {
				key += fmt.Sprintf("-%d", i)
			}
			exactly.Tolerations = append(exactly.Tolerations, resourceapi.DeviceToleration{Key: key,
				Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("gpu-%d", i), Exactly: exactly})
	}
	return claim
}
