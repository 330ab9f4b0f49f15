package policy_test

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/parameters"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// claimOf is a claim with requests, each with tolerations; distinct ones or the same for
// every request.
func claimOf(requests, tolerations int, distinct bool) *resourceapi.ResourceClaim {
	claim := asking()
	claim.Spec.Devices.Requests = nil
	for i := range requests {
		exact := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
		for j := range tolerations {
			key := fmt.Sprintf("gpu.example.com/taint-%d", j)
			if distinct {
				key += fmt.Sprintf("-%d", i)
			}
			seconds := int64(300)
			exact.Tolerations = append(exact.Tolerations, resourceapi.DeviceToleration{
				Key: key, Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("gpu-%d", i), Exactly: exact})
	}
	return claim
}

// classes is a ClusterView with the class that the claims name.
func classes() validate.ClusterView {
	world := &validate.Objects{}
	class := &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`},
	}}}}
	class.Name, class.ResourceVersion = "gpu.example.com", "1"
	world.Add(class)
	return world
}

// BenchmarkLibrary: the library as it ships, without and with kept decisions.
func BenchmarkLibrary(b *testing.B) {
	schemas, err := parameters.Default()
	if err != nil {
		b.Fatal(err)
	}
	configured := claimOf(1, 1, false)
	configured.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}}}}
	configured.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig"}`)
	wildcard := claimOf(8, 4, false)
	wildcard.Spec.Devices.Requests[0].Exactly.Tolerations[0].Key = ""
	wildcardOf32 := claimOf(8, 4, true)
	wildcardOf32.Spec.Devices.Requests[0].Exactly.Tolerations[0].Key = ""
	endless, endlessOf32 := claimOf(8, 4, false), claimOf(8, 4, true)
	for _, claim := range []*resourceapi.ResourceClaim{endless, endlessOf32} {
		for i := range claim.Spec.Devices.Requests {
			for j := range claim.Spec.Devices.Requests[i].Exactly.Tolerations {
				claim.Spec.Devices.Requests[i].Exactly.Tolerations[j].TolerationSeconds = nil
			}
		}
	}
	for _, bench := range []struct {
		name  string
		claim *resourceapi.ResourceClaim
	}{
		{"1 request without tolerations", claimOf(1, 0, false)},
		{"1 request with 1 toleration", claimOf(1, 1, false)},
		{"1 request with 1 toleration and a configuration", configured},
		{"8 requests with the same 4 tolerations", claimOf(8, 4, false)},
		{"8 requests with the same 4 tolerations, one denied", wildcard},
		{"8 requests with 32 distinct tolerations", claimOf(8, 4, true)},
		{"8 requests with 32 distinct tolerations, one denied", wildcardOf32},
		{"8 requests with the same 4 tolerations, each warned about", endless},
		{"8 requests with 32 distinct tolerations, each warned about", endlessOf32},
	} {
		for _, cache := range []struct {
			name string
			size int
		}{{"cold", -1}, {"kept", 0}} {
			b.Run(bench.name+"/"+cache.name, func(b *testing.B) {
				e := engine(b, policy.Settings{CacheBytes: int64(cache.size), Timeout: time.Minute}, policy.Library())
				req := writing(bench.claim)
				req.ClusterView, req.Parameters = classes(), schemas
				b.ReportAllocs()
				begin := cpuTime(b)
				for b.Loop() {
					if d := decide(b, e, req); !d.Evaluated {
						b.Fatal("nothing was evaluated")
					}
				}
				b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N)/1000, "cpu-µs/op")
			})
		}
	}
}

// BenchmarkPolicy: each policy of the library by itself, on the larger claim.
func BenchmarkPolicy(b *testing.B) {
	for _, p := range compiled(b, policy.Library()).Policies() {
		if p.Kinds[0] != "ResourceClaim" {
			continue
		}
		b.Run(p.Code, func(b *testing.B) {
			settings := only(b, p.Code)
			settings.Modes[p.Code] = policy.Warn
			settings.CacheBytes = -1
			e := engine(b, settings, policy.Library())
			req := writing(claimOf(1, 1, false))
			b.ReportAllocs()
			req.ClusterView = classes()
			begin := cpuTime(b)
			for b.Loop() {
				decide(b, e, req)
			}
			b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N)/1000, "cpu-µs/op")
		})
	}
}
