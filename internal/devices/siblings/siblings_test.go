package siblings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/devices/siblings"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// slice returns a slice of devices that consume counters of the sets after the colon.
func slice(pool string, generation int64, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: pool, Generation: generation}}}
	for _, text := range devices {
		name, sets, _ := strings.Cut(text, ":")
		d := resourceapi.Device{Name: name}
		for set := range strings.FieldsSeq(strings.ReplaceAll(sets, ",", " ")) {
			d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{CounterSet: set})
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

// TestOf: siblings share a counter set of one pool.
func TestOf(t *testing.T) {
	all := []*resourceapi.ResourceSlice{
		slice("a", 2, "part-0:x", "part-1:x", "whole:x", "other:y", "plain"), slice("a", 2, "part-2:x", "pair:x,y"), slice("a", 1, "old:x"),
		slice("b", 1, "part-0:x", "part-1:x"),
	}
	for names, want := range map[string]string{
		"a/part-0":          "a/pair a/part-1 a/part-2 a/whole",
		"a/other":           "a/pair",
		"a/pair":            "a/other a/part-0 a/part-1 a/part-2 a/whole",
		"a/plain":           "",
		"a/gone":            "",
		"a/part-0 b/part-1": "a/pair a/part-1 a/part-2 a/whole b/part-0",
		"b/part-0 b/part-1": "",
		"":                  "",
	} {
		var ids []usage.DeviceID
		for name := range strings.FieldsSeq(names) {
			pool, device, _ := strings.Cut(name, "/")
			ids = append(ids, usage.DeviceID{Driver: "gpu.example.com", Pool: pool, Device: device})
		}
		var got []string
		for _, id := range siblings.Of(slices.Values(all), slices.Values(ids)) {
			got = append(got, fmt.Sprintf("%s/%s", id.Pool, id.Device))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", names, got, want)
		}
	}
}
