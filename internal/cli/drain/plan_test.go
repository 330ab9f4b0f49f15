package drain

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestCordoned: the plan of a large drain has a line for a pool, and not for a device.
func TestCordoned(t *testing.T) {
	devices := func(n int) (names []v1alpha1.DeviceName) {
		for i := range n {
			names = append(names, v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: fmt.Sprint("node-", i/8), Device: fmt.Sprint("gpu-", i%8)})
		}
		return names
	}
	if got := cordoned(devices(2)); !slices.Equal(got, []string{"gpu.example.com/node-0/gpu-0", "gpu.example.com/node-0/gpu-1"}) {
		t.Errorf("two devices: %q", got)
	}
	want := []string{"gpu.example.com/node-0: 8 devices", "gpu.example.com/node-1: 8 devices", "gpu.example.com/node-2: 8 devices", "gpu.example.com/node-3: 8 devices", "gpu.example.com/node-4: 1 device"}
	if got := cordoned(devices(33)); !slices.Equal(got, want) {
		t.Errorf("33 devices: %q", got)
	}
}
