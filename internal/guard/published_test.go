package guard_test

import (
	"maps"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/guard"
)

// TestPublishedDevices: of a pool the slices of its newest generation count.
func TestPublishedDevices(t *testing.T) {
	slice := func(driver, pool string, generation int64, devices int) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{}
		s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Pool.Generation = driver, pool, generation
		s.Spec.Devices = make([]resourceapi.Device, devices)
		return s
	}
	got := guard.PublishedDevices(slices.Values([]*resourceapi.ResourceSlice{
		slice("a", "p", 1, 8), slice("a", "p", 2, 4), slice("a", "p", 1, 2), slice("a", "p", 2, 1), // 5
		slice("a", "q", 3, 7), slice("a", "q", 3, 1), // 8
		slice("b", "p", 1, 2), slice("b", "p", 5, 1), // 1
	}))
	if want := map[string]int{"a": 13, "b": 1}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
