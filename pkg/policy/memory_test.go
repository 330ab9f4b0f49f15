package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// widest are claims at the limits of policies, each wide in another way.
func widest() map[string]*resourceapi.ResourceClaim {
	parameters := asking(resourceapi.DeviceToleration{})
	for i := range resourceapi.DeviceConfigMaxSize {
		raw := fmt.Appendf(nil, `{"n": %d, "list": [%s0]}`, i, strings.Repeat("0,", 1900))
		parameters.Spec.Devices.Config = append(parameters.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{DeviceConfiguration: resourceapi.DeviceConfiguration{
			Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}}})
		parameters.Spec.Devices.Config[i].Opaque.Parameters.Raw = raw
	}
	alternatives := costly(2)
	for i := range alternatives.Spec.Devices.Requests {
		for j := range alternatives.Spec.Devices.Requests[i].FirstAvailable {
			list := alternatives.Spec.Devices.Requests[i].FirstAvailable[j].Tolerations
			for k := range list {
				list[k].Key, list[k].TolerationSeconds = fmt.Sprintf("example.com/%s-%d", strings.Repeat("k", 40), (i*16+j*2+k)%128), nil
			}
		}
	}
	return map[string]*resourceapi.ResourceClaim{
		"distinct tolerations": claimOf(32, 4, true),
		"tolerations":          claimOf(32, 16, false),
		"alternatives":         alternatives,
		"parameters":           parameters,
	}
}

// allocated is what a function allocates in all, which is at least what it holds at once.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestMemoryOfOneEvaluation: the policies of the library allocate little for the widest claims
// that Settings.Limits let through.
func TestMemoryOfOneEvaluation(t *testing.T) {
	const most = 32 << 20
	e := engine(t, policy.Settings{Timeout: time.Minute, CacheBytes: -1}, policy.Library())
	for name, claim := range widest() {
		req := writing(claim)
		req.ClusterView = classes()
		var d policy.Decision
		took := allocated(func() { d = e.Evaluate(t.Context(), req) })
		t.Logf("%s: %d KiB of claim, %d KiB allocated, %d violations", name, claim.Size()>>10, took>>10, len(d.Violations))
		if len(d.Failures) > 0 || !d.Evaluated {
			t.Errorf("%s: %+v", name, d.Failures)
		}
		if took > most {
			t.Errorf("%s: %d MiB were allocated, at most %d may be", name, took>>20, most>>20)
		}
	}
}

// TestMemoryOfGrowingValues: a policy of the site that makes its values larger with each step, and
// has no end of its own, is ended by its time.
func TestMemoryOfGrowingValues(t *testing.T) {
	const most = 256 << 20
	products := `deny contains {"paths": [], "message": "x"} if {
	all := [[a, b, c, d] | some a in numbers; some b in numbers; some c in numbers; some d in numbers]
	count(all) < 0
}

numbers := ` + upTo(208) + "\n"
	var doubled strings.Builder
	doubled.WriteString("deny contains {\"paths\": [], \"message\": \"x\"} if {\n\ta0 := input.tolerations[0].key\n")
	for i := range 40 {
		fmt.Fprintf(&doubled, "\ta%d := concat(\"\", [a%d, a%d])\n", i+1, i, i)
	}
	doubled.WriteString("\ta40 == \"x\"\n}\n")
	for name, text := range map[string]string{"products": products, "a doubled text": doubled.String()} {
		e := engine(t, policy.Settings{Timeout: 20 * time.Millisecond}, source(header+text))
		var d policy.Decision
		took := allocated(func() {
			d = e.Evaluate(t.Context(), writing(asking(resourceapi.DeviceToleration{Key: "example.com/key", Operator: "Exists"})))
		})
		t.Logf("%s: %d MiB allocated in 20 ms", name, took>>20)
		if len(d.Failures) != 1 || !d.Failures[0].TimedOut || d.Failures[0].Mode != policy.Deny || took > most {
			t.Errorf("%s: %d MiB allocated, %+v", name, took>>20, d)
		}
	}
}
