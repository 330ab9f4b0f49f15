package record_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

const (
	mostNames  = resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	mostValues = resourceapi.ResourceSliceMaxAttributeValuesPerDevice
)

// TestRoom: what is not written into a slice takes no room from the values of other patches, and the driver's
// value that remains instead of it keeps its room.
func TestRoom(t *testing.T) {
	list := func(n int) resourceapi.DeviceAttribute {
		return resourceapi.DeviceAttribute{IntValues: make([]int64, n)}
	}
	attribute := func(of map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute) v1alpha1.DevicePatch {
		d := v1alpha1.DevicePatch{Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{}}
		for name, value := range of {
			d.Attributes[name] = v1alpha1.NullableDeviceAttribute{DeviceAttribute: value}
		}
		return d
	}
	for name, tt := range map[string]struct {
		scalars int // of the driver
		list    int // values of the driver's list, 0 for none
		first   v1alpha1.DevicePatch
		want    int // of the scalars that fit, each of which is a name and a value
	}{
		"none left out": {20, 0, v1alpha1.DevicePatch{}, mostNames - 20},
		"names":         {20, 0, attribute(map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute{"x.io/a": list(1), "x.io/b": list(1)}), mostNames - 20},
		"values":        {20, 0, attribute(map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute{"x.io/a": list(25)}), mostNames - 20},
		"another list that has room then": {20, 0, attribute(map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute{
			"x.io/a": list(25), "x.io/b": list(25)}), mostNames - 20},
		"instead of a scalar": {20, 0, attribute(map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute{"gpu.example.com/s0": list(25)}), mostNames - 20},
		"instead of a longer list": {6, 30, attribute(map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute{
			"gpu.example.com/list": list(1)}), mostValues - 36},
		"below the policy": {20, 0, v1alpha1.DevicePatch{Capacity: map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{"x.io/memory": {
			Value: resource.MustParse("1Gi"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("8Gi"))}}}}, mostNames - 20},
	} {
		t.Run(name, func(t *testing.T) {
			device := resourceapi.Device{Name: "gpu-0", AllowMultipleAllocations: ptr.To(true), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
			for i := range tt.scalars {
				device.Attributes[resourceapi.QualifiedName(fmt.Sprint("s", i))] = resourceapi.DeviceAttribute{IntValue: ptr.To(int64(i))}
			}
			if tt.list > 0 {
				device.Attributes["list"] = list(tt.list)
			}
			published := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Devices: []resourceapi.Device{device}}}
			check := func(when string, merged record.Merged) {
				t.Helper()
				got := merged.Slice.Spec.Devices[0]
				written := 0
				for i := range mostValues {
					if _, has := got.Attributes[resourceapi.QualifiedName(fmt.Sprintf("other.io/o%02d", i))]; has {
						written++
					}
				}
				if written != tt.want || len(got.Attributes)+len(got.Capacity) != tt.want+len(device.Attributes) {
					t.Errorf("%s: %d scalars of %d attributes and %d capacities are written, want %d", when, written, len(got.Attributes), len(got.Capacity), tt.want)
				}
				if wants := len(tt.first.Attributes) + len(tt.first.Capacity); (wants > 0) != (len(merged.Blocked) > 0) {
					t.Errorf("%s: blocked %+v of %d", when, merged.Blocked, wants)
				}
				if merged.Refused != nil {
					t.Errorf("%s: %v", when, merged.Refused)
				}
			}
			first, others := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "first"}}, &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "others"}}
			first.Spec.Devices = tt.first
			first.Spec.Devices.Priority = ptr.To[int64](1)
			scalars := map[resourceapi.FullyQualifiedName]resourceapi.DeviceAttribute{}
			for i := range mostValues {
				scalars[resourceapi.FullyQualifiedName(fmt.Sprintf("other.io/o%02d", i))] = resourceapi.DeviceAttribute{BoolValue: ptr.To(true)}
			}
			others.Spec.Devices = attribute(scalars)
			var both, few patch.Set
			both.Put(first, nil)
			both.Put(others, nil)
			check("first write", merge(t, &both, published, nil))

			one := others.DeepCopy() // there is a record, and less room than without it
			for name := range scalars {
				if name != "other.io/o00" {
					delete(one.Spec.Devices.Attributes, name)
				}
			}
			few.Put(first, nil)
			few.Put(one, nil)
			stored := merge(t, &few, published, nil).Slice
			if stored.Annotations[record.Annotation] == "" {
				t.Fatal("no record")
			}
			touched := merge(t, &both, stored, stored)
			check("over a record", touched)
			check("over its own record", merge(t, &both, touched.Slice, touched.Slice))
			check("of the driver", merge(t, &both, published, touched.Slice))
		})
	}
}
