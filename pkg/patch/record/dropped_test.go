package record_test

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// TestDroppedPolicy: the value of the driver is known although an API server without DRAConsumableCapacity drops what belongs to shared devices.
func TestDroppedPolicy(t *testing.T) {
	said := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Devices: []resourceapi.Device{{
		Name: "gpu-0", AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
			Value:         resource.MustParse("80Gi"),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("8Gi"))}}},
	}}}}
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	object.Spec.Devices.Capacity = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{"gpu.example.com/memory": {Value: resource.MustParse("78Gi")}}
	var set, none patch.Set
	set.Put(object, nil)
	drop := func(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
		s = s.DeepCopy()
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			d.AllowMultipleAllocations = nil
			for k, c := range d.Capacity {
				c.RequestPolicy = nil
				d.Capacity[k] = c
			}
		}
		return s
	}
	value := func(s *resourceapi.ResourceSlice) string {
		c := s.Spec.Devices[0].Capacity["memory"]
		return c.Value.String()
	}
	stored := drop(merge(t, &set, said, nil).Slice)
	if value(stored) != "78Gi" {
		t.Fatal(value(stored))
	}
	published, err := record.Published(stored, time.Now())
	if err != nil || value(published) != "80Gi" {
		t.Errorf("published %s, want 80Gi (%v)", value(published), err)
	}
	touched := drop(merge(t, &set, stored, stored).Slice) // the driver writes what it was answered, or a touch
	t.Logf("record after a touch: %q", touched.Annotations[record.Annotation])
	after := drop(merge(t, &none, touched, touched).Slice) // the patch is deleted
	if value(after) != "80Gi" {
		t.Errorf("without the patch: %s, want 80Gi", value(after))
	}
	_ = record.Annotation
}
