package policy_test

// The benchmarks of test/results/performance-lab.md, with the whole library:
//
//	go test ./pkg/policy -run '^$' -bench . -benchmem

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// demanding is a claim with eight requests of four tolerations, all the same or each
// another.
func demanding(distinct bool) *resourceapi.ResourceClaim {
	claim := asking()
	claim.Spec.Devices.Requests = nil
	for i := range 8 {
		var tolerations []resourceapi.DeviceToleration
		for j := range 4 {
			key := fmt.Sprintf("example.com/fault-%d", j)
			if distinct {
				key += fmt.Sprintf("-%d", i)
			}
			tolerations = append(tolerations, resourceapi.DeviceToleration{Key: key, Operator: "Exists", Effect: "NoSchedule"})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("gpu-%d", i),
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", AllocationMode: "ExactCount", Count: 1, Tolerations: tolerations}})
	}
	return claim
}

func BenchmarkEvaluate(b *testing.B) {
	library, cold := engine(b, policy.Settings{}, policy.Library()), engine(b, policy.Settings{CacheBytes: -1}, policy.Library())
	wildcard := only(b, "DRA-TOL-001")
	wildcard.CacheBytes = -1
	one := engine(b, wildcard, policy.Library())
	for name, req := range map[string]policy.Request{"typical": writing(demanding(false)), "distinct": writing(demanding(true))} {
		for how, e := range map[string]*policy.Engine{"cold": cold, "cached": library, "one-policy": one} {
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if d := e.Evaluate(b.Context(), req); len(d.Failures) > 0 {
						b.Fatal(d.Failures)
					}
				}
			})
		}
		b.Run(name+"/gatekeeper-style", func(b *testing.B) { benchmarkUnprepared(b, req) })
		b.Run(name+"/plain-go", func(b *testing.B) {
			b.ReportAllocs()
			claim := req.Object.(*resourceapi.ResourceClaim)
			for b.Loop() {
				for i := range claim.Spec.Devices.Requests {
					for _, t := range claim.Spec.Devices.Requests[i].Exactly.Tolerations {
						if t.Key == "" {
							b.Fatal("wildcard")
						}
					}
				}
			}
		})
	}
}

// benchmarkUnprepared evaluates the wildcard policy as Gatekeeper does: the claim through
// JSON, and a query that is made for the call on modules that are compiled.
func benchmarkUnprepared(b *testing.B, req policy.Request) {
	b.ReportAllocs()
	const module = `package gatekeeper
deny contains message if {
	some request in input.spec.devices.requests
	some toleration in request.exactly.tolerations
	object.get(toleration, "key", "") == ""
	message := sprintf("%s tolerates every taint", [request.name])
}`
	compiler, err := ast.CompileModules(map[string]string{"a.rego": module})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		data, err := json.Marshal(req.Object)
		if err != nil {
			b.Fatal(err)
		}
		var input map[string]any
		if err := json.Unmarshal(data, &input); err != nil {
			b.Fatal(err)
		}
		results, err := rego.New(rego.Compiler(compiler), rego.Query("data.gatekeeper.deny"), rego.Input(input)).Eval(b.Context())
		if err != nil || len(results) != 1 {
			b.Fatal(results, err)
		}
	}
}

// BenchmarkGrowth: what a decision costs with more policies, and a reload with them.
func BenchmarkGrowth(b *testing.B) {
	for _, more := range []int{0, 180} {
		files := fstest.MapFS{}
		for i := range more {
			files[fmt.Sprintf("p%d.rego", i)] = &fstest.MapFile{Data: []byte(fmt.Sprintf(`# METADATA
# title: Test
# description: Test.
# custom:
#   code: GROWTH-%[1]d
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
package dra.custom.growth%[1]d

deny contains {"paths": t.paths, "message": "x"} if {
	some t in input.tolerations
	t.key == "example.com/other-%[1]d"
}
`, i))}
		}
		source := policy.Collection{Name: "growth", Files: files}
		e := engine(b, policy.Settings{CacheBytes: -1}, policy.Library(), source)
		b.Run(fmt.Sprintf("evaluate/more=%d", more), func(b *testing.B) {
			req := writing(demanding(false))
			for b.Loop() {
				e.Evaluate(b.Context(), req)
			}
		})
		b.Run(fmt.Sprintf("load/more=%d", more), func(b *testing.B) {
			for b.Loop() {
				engine(b, policy.Settings{}, policy.Library(), source)
			}
		})
	}
}

// BenchmarkNamespaces: what a decision costs with parameters and a mode of their own for
// many namespaces, whose labels are known; and what it takes to make the engine.
func BenchmarkNamespaces(b *testing.B) {
	set := compiled(b, policy.Library())
	for _, n := range []int{10, 1000, 10000} {
		settings := policy.Settings{CacheBytes: -1, Timeout: time.Minute}
		for i := range n {
			settings.Namespaces = append(settings.Namespaces, policy.Override{Names: []string{fmt.Sprintf("team-%d", i)},
				Modes: map[string]policy.Mode{"DRA-CLAIM-002": policy.Deny}, Parameters: map[string]map[string]any{"DRA-TOL-005": {"maxSeconds": i + 1}}})
		}
		e, err := policy.NewEngine(set, settings)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("evaluate/namespaces=%d", n), func(b *testing.B) {
			req := writing(demanding(false))
			req.Namespace, req.ClusterData = fmt.Sprintf("team-%d", n-1), facts{"team": "a"}
			b.ReportAllocs()
			for b.Loop() {
				e.Evaluate(b.Context(), req)
			}
		})
		b.Run(fmt.Sprintf("load/namespaces=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := policy.NewEngine(set, settings); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
