package compact

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// decoded is a slice as a client decodes it.
func decoded(t testing.TB, devices int) *resourceapi.ResourceSlice {
	t.Helper()
	made := &resourceapi.ResourceSlice{}
	for i := range devices {
		made.Spec.Devices = append(made.Spec.Devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"model": {StringValue: new("A100")}, "vendor": {StringValue: new("Example")}, "uuid": {StringValue: new(fmt.Sprintf("GPU-%d", i))},
				"driver": {VersionValue: new("580.65.6")}, "index": {IntValue: new(int64(i))}, "ecc": {BoolValue: new(true)},
				"type": {StringValue: new("gpu")}, "architecture": {StringValue: new("Ampere")}},
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: resource.MustParse("80Gi")}, "slots": {Value: resource.MustParse(fmt.Sprint(1 + i/4))}},
		})
	}
	data, err := made.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	slice := &resourceapi.ResourceSlice{}
	if err := slice.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	return slice
}

func TestSlice(t *testing.T) {
	for _, n := range []int{0, 1, 2, 8} {
		slice := decoded(t, n)
		want := slice.DeepCopy()
		Slice(slice)
		if !reflect.DeepEqual(slice, want) {
			t.Errorf("%d devices: it changed to %v, want %v", n, slice, want)
		}
	}
}

// TestShared: devices share what is equal, and nothing else.
func TestShared(t *testing.T) {
	slice := decoded(t, 8)
	Slice(slice)
	first, last := slice.Spec.Devices[0], slice.Spec.Devices[7]
	if first.Attributes["model"].StringValue != last.Attributes["model"].StringValue || first.Attributes["driver"].VersionValue != last.Attributes["driver"].VersionValue {
		t.Error("equal values are not shared")
	}
	if first.Attributes["uuid"].StringValue == last.Attributes["uuid"].StringValue {
		t.Error("values that differ are shared")
	}
	key := func(device resourceapi.Device) *byte {
		for name := range device.Attributes {
			if name == "model" {
				return unsafe.StringData(string(name))
			}
		}
		return nil
	}
	if key(first) != key(last) {
		t.Error("the names of attributes are not shared")
	}
	capacity := func(i int) uintptr { return reflect.ValueOf(slice.Spec.Devices[i].Capacity).Pointer() }
	if capacity(0) != capacity(3) || capacity(4) != capacity(7) || capacity(3) == capacity(4) {
		t.Error("capacities are shared where they differ, or not where they are equal")
	}
}

// TestMemory: slices of eight devices that are alike take at least a fifth less.
func TestMemory(t *testing.T) {
	size := func(compacted bool) float64 {
		all := make([]*resourceapi.ResourceSlice, 500)
		before := heap()
		for i := range all {
			if all[i] = decoded(t, 8); compacted {
				Slice(all[i])
			}
		}
		after := heap()
		runtime.KeepAlive(all)
		return float64(after-before) / float64(len(all))
	}
	plain, compacted := size(false), size(true)
	t.Logf("%.1f KiB, compact %.1f KiB", plain/1024, compacted/1024)
	if compacted > 0.8*plain {
		t.Errorf("a slice takes %.0f bytes, compact %.0f", plain, compacted)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkSlice(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		slice := decoded(b, 8)
		b.StartTimer()
		Slice(slice)
	}
}
