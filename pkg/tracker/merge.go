package tracker

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Merge returns the view of a cluster in which there is nothing but objects: of the
// kinds that a tracker reads, others are left out. Of several objects of one name the
// last one counts.
func Merge(objects ...any) *Snapshot {
	batch := map[objectKey]any{}
	for _, object := range objects {
		switch object := object.(type) {
		case *resourceapi.ResourceSlice:
			batch[objectKey{SliceKind, object.Name}] = object
		case *resourceapi.DeviceTaintRule:
			batch[objectKey{RuleKind, object.Name}] = object
		case *v1alpha1.ResourceSlicePatch:
			batch[objectKey{PatchKind, object.Name}] = object
		case *resourceapi.DeviceClass:
			batch[objectKey{ClassKind, object.Name}] = object
		}
	}
	s := newState()
	s.apply(batch)
	return s.current
}
