package placement

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
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

// TestSeenIsStored: where patches are written into slices, the stock kube-scheduler sees the
// patched values, and the taints of rules.
func TestSeenIsStored(t *testing.T) {
	own, patched := resourceapi.DeviceAttribute{StringValue: new("own")}, resourceapi.DeviceAttribute{StringValue: new("patched")}
	text, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "model"}: {
		Published: record.Value{Attribute: &own}, Written: record.Value{Attribute: &patched}, Patch: "rack"}}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{record.Annotation: text}}}
	slice.Spec.Driver, slice.Spec.Pool = "gpu.example.com", resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}
	slice.Spec.Devices = []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": patched}}}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{}, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: "NoSchedule"}}}
	view := tracker.Merge(slice, rule)
	if value := *view.Published("a").Spec.Devices[0].Attributes["model"].StringValue; value != "own" {
		t.Fatalf("the driver publishes %s", value)
	}
	device := Seen(view, false)[0].Spec.Devices[0]
	if value := *device.Attributes["model"].StringValue; value != "patched" || len(device.Taints) != 1 {
		t.Errorf("seen: model %s, %d taints", value, len(device.Taints))
	}
	if slice.Spec.Devices[0].Taints != nil {
		t.Error("the stored slice is changed")
	}
}
