package devicedrain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
)

// TestStatusOfOthers holds that who may only write the status of a drain does not choose its
// devices: what the spec does not confirm is Blocked, evicts no pod and keeps the cordon.
func TestStatusOfOthers(t *testing.T) {
	many := func(prefix string) (all []string) {
		for i := range 1024 {
			all = append(all, fmt.Sprint(prefix, i))
		}
		return all
	}
	for name, tt := range map[string]struct {
		devices []v1alpha1.DrainDevices
		reason  string
	}{
		"another device": {[]v1alpha1.DrainDevices{{Driver: "gpu.example.com", Pools: []string{"node"}, Devices: []string{"gpu-0", "gpu-5"}}}, v1alpha1.BlockedNoDevices},
		"another pool":   {[]v1alpha1.DrainDevices{{Driver: "gpu.example.com", Pools: []string{"node", "other"}, Devices: []string{"gpu-0"}}}, v1alpha1.BlockedNoDevices},
		"a million":      {[]v1alpha1.DrainDevices{{Driver: "gpu.example.com", Pools: many("p"), Devices: many("gpu-")}}, v1alpha1.BlockedTooManyDevices},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, nil)
			w.pod("web", nil, 5)
			w.step(never)
			rules := len(w.rules)
			w.drain.Status.Devices = tt.devices
			if n := testing.AllocsPerRun(1, func() { drain.Names(w.drain) }); n > 10000 {
				t.Errorf("%v allocations", n)
			}
			w.run(time.Minute, never)
			w.expect("Blocked=True " + tt.reason)
			if len(w.times) > 0 || len(w.rules) != rules {
				t.Errorf("%d pods are evicted, %d of %d rules are left", len(w.times), len(w.rules), rules)
			}
		})
	}
	selected := newWorld(t, 0, func(s *v1alpha1.DeviceDrainSpec) {
		s.Selector = &v1alpha1.DrainSelector{Driver: new("gpu.example.com")}
	})
	selected.drain.Status.Devices = []v1alpha1.DrainDevices{{Driver: "nic.example.com", Pools: []string{"node"}, Devices: []string{"nic-0"}}}
	if names := drain.Names(selected.drain); len(names) > 0 {
		t.Errorf("got %v of another driver", names)
	}
}
