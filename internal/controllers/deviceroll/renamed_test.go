package deviceroll

import (
	"strings"
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestRenamed: a device that the drain does not name is in use as soon as it is published. A node that is to be proven
// first fails, and a user can accept that; without a proof nothing is promised.
func TestRenamed(t *testing.T) {
	const text = "2 devices are not in the drain, so that pods can use them before the proof: gpu.example.com/node-0/gpu-4, gpu.example.com/node-0/gpu-5; continue to accept that"
	for _, state := range []v1alpha1.RollState{v1alpha1.RollPublishing, v1alpha1.RollProving} {
		m := newModel(t, 1, proved)
		n := m.nodes["node-0"]
		m.run(200, func() bool { return m.node(0).State == state })
		n.devices, n.after = 6, 6
		m.run(100, m.held(v1alpha1.HeldNodeFailed))
		if got := m.node(0); got.FailedIn != state || !strings.HasSuffix(got.Message, text) {
			t.Errorf("%s: %+v", state, got)
		}
		m.steer(func(s *v1alpha1.DeviceRollSpec) { s.Continue++ })
		m.run(200, m.completed)
		m.clean()
	}
	m := newModel(t, 1, asIs)
	m.nodes["node-0"].after = 6
	m.run(200, m.completed)
	if got := m.node(0); !strings.Contains(got.Message, "has 6 devices, and had 4") {
		t.Errorf("%+v", got)
	}
}
