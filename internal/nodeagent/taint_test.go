package nodeagent

import (
	"math"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const gpuDriver = "gpu.example.com"

func taintRule(name string, selector *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: selector, Taint: resourceapi.DeviceTaint{Key: name, Effect: resourceapi.DeviceTaintEffectNoExecute},
	}}
}

// TestTaintsWithoutSlice: the agent reads the slices of its own node. The taints of rules
// count for devices of network pools, too, and for devices whose slice is gone.
func TestTaintsWithoutSlice(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: gpuDriver, Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 1},
		Devices: []resourceapi.Device{{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "of-driver", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}},
	}}
	snapshot := tracker.Merge(slice,
		taintRule("driver", &resourceapi.DeviceTaintSelector{Driver: ptr.To(gpuDriver)}),
		taintRule("network", &resourceapi.DeviceTaintSelector{Driver: ptr.To(gpuDriver), Pool: ptr.To("network")}),
		taintRule("gone", &resourceapi.DeviceTaintSelector{Device: ptr.To("gpu-9")}))
	for device, want := range map[[2]string]string{
		{"node-1", "gpu-0"}:  "of-driver driver",
		{"network", "gpu-0"}: "driver network",
		{"node-1", "gpu-9"}:  "driver gone",
	} {
		var keys []string
		for _, taint := range taintsOf(snapshot, nil, gpuDriver, device[0], device[1]) {
			keys = append(keys, taint.Key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s: taints %s, want %s", device, got, want)
		}
	}
}

// TestTolerationEnds: a taint whose toleration has ended is not tolerated.
func TestTolerationEnds(t *testing.T) {
	added := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	taint := resourceapi.DeviceTaint{Key: "k", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: &metav1.Time{Time: added}}
	toleration := resourceapi.DeviceToleration{Key: "k", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}
	withSeconds := toleration
	withSeconds.TolerationSeconds = ptr.To[int64](60)
	longest := toleration
	longest.TolerationSeconds = ptr.To[int64](math.MaxInt64)
	withoutTime := taint
	withoutTime.TimeAdded = nil
	for name, test := range map[string]struct {
		toleration resourceapi.DeviceToleration
		taint      resourceapi.DeviceTaint
		after      time.Duration
		want       bool
	}{
		"before the end":       {withSeconds, taint, time.Minute - 1, true},
		"a taint to come":      {withSeconds, taint, -time.Minute, true},
		"the longest seconds":  {longest, taint, 1e6 * time.Hour, true},
		"at the end":           {withSeconds, taint, time.Minute, false},
		"without seconds":      {toleration, taint, time.Hour, true},
		"a taint without time": {withSeconds, withoutTime, time.Hour, true},
		"another key":          {resourceapi.DeviceToleration{Key: "other", Operator: resourceapi.DeviceTolerationOpExists}, taint, 0, false},
	} {
		if got := isTolerated([]resourceapi.DeviceToleration{test.toleration}, test.taint, added.Add(test.after)); got != test.want {
			t.Errorf("%s: tolerated is %t, want %t", name, got, test.want)
		}
	}
}
