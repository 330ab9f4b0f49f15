package patch

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A slice that no patch has anything to do with stays what it is; one that a patch
// matches is merged, and is what it was once the patch is gone.
func TestSet(t *testing.T) {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1"},
			Devices: []resourceapi.Device{{Name: "gpu-0"}},
		},
	}
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "rack"}}
	object.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Driver: ptr.To("gpu.example.com")}
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"dc.example.com/rack": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To("r12")}},
	}
	var set Set
	if set.Apply(slice) != nil {
		t.Error("an empty set must leave the slice as it is")
	}
	if old, now := set.Put(object, nil); old != nil || now == nil || set.Len() != 1 || set.Get("rack") != now {
		t.Errorf("put: %v, %v", old, now)
	}
	result := set.Apply(slice)
	if result == nil || *result.Slice.Spec.Devices[0].Attributes["dc.example.com/rack"].StringValue != "r12" {
		t.Fatalf("merged: %+v", result)
	}
	if slice.Spec.Devices[0].Attributes != nil {
		t.Error("the published slice was changed")
	}
	if set.Delete("rack") == nil || set.Apply(slice) != nil {
		t.Error("without its patch the slice must be what it was")
	}
}
