package validate

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// fullClaim has as many requests and selectors as an API server takes; distinct is how many
// of the expressions differ.
func fullClaim(distinct int) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Name = "full"
	for i := range resourceapi.DeviceRequestsMaxSize {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", Count: 1}
		for j := range resourceapi.DeviceSelectorsMaxSize {
			n := (i*resourceapi.DeviceSelectorsMaxSize + j) % distinct
			exactly.Selectors = append(exactly.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{
				Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].index == %d`, n),
			}})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint("gpu-", i), Exactly: exactly})
	}
	return claim
}

// BenchmarkClaim checks a claim with 32 requests of 32 selectors each: all of them the
// same, all different, and all remembered from another claim.
func BenchmarkClaim(b *testing.B) {
	for _, bench := range []struct {
		name     string
		distinct int
		known    *Expressions
	}{{"same", 1, nil}, {"different", 1024, nil}, {"remembered", 1024, &Expressions{}}} {
		claim := fullClaim(bench.distinct)
		b.Run(bench.name, func(b *testing.B) {
			rules, c := ResourceClaim().Upstream(), Conditions{Expressions: bench.known}.APIServer()
			for b.Loop() {
				if errs := rules.Validate(claim, c); len(errs) > 0 {
					b.Fatal(errs)
				}
			}
		})
	}
}
