package placement

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestSeparated: a slice with counter sets and devices is two for the allocator, and the pool
// stays complete.
func TestSeparated(t *testing.T) {
	published := func(name string, generation, count int64, counters, devices int) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{}
		s.Name = name
		s.Spec.Driver, s.Spec.Pool = "gpu.example.com", resourceapi.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: count}
		s.Spec.SharedCounters = make([]resourceapi.CounterSet, counters)
		s.Spec.Devices = make([]resourceapi.Device, devices)
		return s
	}
	apart := []*resourceapi.ResourceSlice{published("counters", 1, 2, 1, 0), published("devices", 1, 2, 0, 3)}
	if got := Separated(apart); !slices.Equal(got, apart) {
		t.Errorf("separate slices are changed: %v", got)
	}
	together := []*resourceapi.ResourceSlice{published("a", 2, 2, 1, 3), published("b", 2, 2, 0, 4), published("old", 1, 1, 0, 5)}
	var got []string
	for _, s := range Separated(together) {
		got = append(got, fmt.Sprintf("%s of %d: %d counter sets, %d devices", s.Name, s.Spec.Pool.ResourceSliceCount, len(s.Spec.SharedCounters), len(s.Spec.Devices)))
	}
	want := []string{"a-counters of 3: 1 counter sets, 0 devices", "a of 3: 0 counter sets, 3 devices", "b of 3: 0 counter sets, 4 devices", "old of 1: 0 counter sets, 5 devices"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if s := together[0]; len(s.Spec.SharedCounters) != 1 || s.Name != "a" || s.Spec.Pool.ResourceSliceCount != 2 {
		t.Errorf("the published slice is changed: %+v", s)
	}
}
