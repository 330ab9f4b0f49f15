package device

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/internal/cluster/clusterread"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestByDevice: a device with several taints is one part, which a removed taint changes; the
// header and the totals are parts, too.
func TestByDevice(t *testing.T) {
	taint := func(key string) tracker.Taint {
		return tracker.Taint{DeviceTaint: resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNone}}
	}
	all := []deviceReport{{Device: "gpu-0", Taints: []tracker.Taint{taint("a"), taint("b")}, Patched: []patchedReport{{Name: "c"}}}, {Device: "gpu-1"}}
	for _, headers := range []bool{true, false} {
		lines, err := cmdutil.Lines(func(out io.Writer) error { return writeDevicesText(out, all, false, headers) })
		if err != nil {
			t.Fatal(err)
		}
		parts := byDevice(slices.Clone(lines), all, headers)
		want := 2
		if headers {
			want = 4
		}
		var text bytes.Buffer
		if err := writeDevicesText(&text, all, false, headers); err != nil {
			t.Fatal(err)
		}
		if len(parts) != want || strings.Join(parts, "") != text.String() {
			t.Errorf("headers %t: %d parts:\n%s", headers, len(parts), strings.Join(parts, "--\n"))
		}
	}
}

// TestHolders: admin access and shares of a device that is left in part do not make it allocated.
func TestHolders(t *testing.T) {
	claim := func(name string, r resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
		r.Driver, r.Pool, r.Device = "dra.cpu", "n1", "numa0"
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, UID: types.UID(name)}, Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}}}
		c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{r}
		return c
	}
	one := map[resourceapi.QualifiedName]resource.Quantity{"cpu": resource.MustParse("1")}
	shared := resourceapi.Device{Name: "numa0", AllowMultipleAllocations: new(true), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"cpu": {Value: resource.MustParse("2")}}}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "dra.cpu", Pool: resourceapi.ResourcePool{Name: "n1", ResourceSliceCount: 1}, NodeName: new("n1"), Devices: []resourceapi.Device{shared}}}
	monitor := claim("monitor", resourceapi.DeviceRequestAllocationResult{AdminAccess: new(true)})
	first := claim("first", resourceapi.DeviceRequestAllocationResult{ShareID: new(types.UID("1")), ConsumedCapacity: one})
	second := claim("second", resourceapi.DeviceRequestAllocationResult{ShareID: new(types.UID("2")), ConsumedCapacity: one})
	for _, test := range []struct {
		claims []*resourceapi.ResourceClaim
		cell   string
		full   bool
		totals string
	}{
		{[]*resourceapi.ResourceClaim{monitor}, "team-a/monitor (admin access)", false, "1 device: 0 allocated, 1 free; 0 tainted"},
		{[]*resourceapi.ResourceClaim{monitor, first}, "team-a/first,team-a/monitor (admin access) cpu 1/2", false, "1 device: 0 allocated, 1 in part, 0 free; 0 tainted"},
		{[]*resourceapi.ResourceClaim{second, first}, "team-a/first,team-a/second cpu 2/2", true, "1 device: 1 allocated, 0 free; 0 tainted"},
	} {
		snapshot := &clusterread.Snapshot{View: tracker.Merge(slice), Claims: test.claims}
		all := reportDevices(snapshot)
		if cell, _ := all[0].holders(); cell != test.cell || all[0].Full != test.full || totals(all) != test.totals {
			t.Errorf("%q, full %t, %s; want %+v", cell, all[0].Full, totals(all), test)
		}
	}
}
