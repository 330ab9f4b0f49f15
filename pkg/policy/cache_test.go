package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestCacheIsBounded: 20,000 distinct claims do not make the heap grow, whether they are
// small, as large as what is kept, or larger.
func TestCacheIsBounded(t *testing.T) {
	const cacheBytes = 4 << 20
	for _, parameters := range []int{100, 30 << 10, 100 << 10} {
		e := engine(t, policy.Settings{CacheBytes: cacheBytes}, source(header+"deny contains {\"paths\": t.paths, \"message\": t.value} if some t in input.tolerations\n"))
		claim := asking(resourceapi.DeviceToleration{})
		claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: "gpu.example.com"}}}}
		claim.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(`{"a": "` + strings.Repeat("a", parameters) + `"}`)
		before := heap()
		for i := range 20000 {
			claim.Spec.Devices.Requests[0].Exactly.Tolerations[0].Value = fmt.Sprintf("value-%d", i)
			if d := decide(t, e, writing(claim)); d.Cached || len(d.Violations) != 1 {
				t.Fatalf("%+v", d)
			}
		}
		if grown := heap() - before; grown > 3*cacheBytes/2 {
			t.Errorf("parameters of %d bytes: the heap grew by %d KiB", parameters, grown>>10)
		}
		kept := decide(t, e, writing(claim)).Cached
		if want := parameters < 32<<10; kept != want {
			t.Errorf("parameters of %d bytes: kept %t, want %t", parameters, kept, want)
		}
		runtime.KeepAlive(e)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestNoCache keeps nothing.
func TestNoCache(t *testing.T) {
	e := engine(t, policy.Settings{CacheBytes: -1}, policy.Library())
	for range 2 {
		if d := decide(t, e, writing(asking(resourceapi.DeviceToleration{}))); d.Cached {
			t.Error("a decision is kept")
		}
	}
}
