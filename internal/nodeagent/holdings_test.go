package nodeagent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// TestReport: each holder has the attributes of its device and the taints for its request.
func TestReport(t *testing.T) {
	h, other := holding("a", "x", "gpu-0"), holding("b", "y", "gpu-0")
	plugin := podresources.Holding{Namespace: "default", Pod: "a", Resource: "vendor.example/gpu", Device: "gpu-0"}
	taint := resourceapi.DeviceTaint{Key: "k", Value: "v", Effect: resourceapi.DeviceTaintEffectNoExecute}
	o := &Observation{
		At: time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC), Stale: true, Holdings: []podresources.Holding{h, other, plugin},
		Attributes: map[Device]map[string]string{deviceOf(h): {"uuid": "GPU-1"}},
		Taints:     []HeldTaint{{h, taint, true, 0}, {h, taint, true, 0}, {other, taint, false, 1}},
	}
	want := Holdings{Node: "node-1", At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Stale: true, Holdings: []HeldDevice{
		{Holding: h, Attributes: map[string]string{"uuid": "GPU-1"}, Taints: []TaintOfHolder{{"k=v:NoExecute", true}}},
		{Holding: other, Attributes: map[string]string{"uuid": "GPU-1"}, Taints: []TaintOfHolder{{"k=v:NoExecute", false}}},
		{Holding: plugin},
	}}
	if diff := cmp.Diff(want, o.Report("node-1")); diff != "" {
		t.Error(diff)
	}
}
