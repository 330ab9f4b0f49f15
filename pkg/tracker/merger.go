package tracker

import (
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/remerge"
)

// A merger merges the objects of a cluster again and again: what has not changed since the last
// time is not merged again.
type merger struct {
	state *state
	last  map[objectKey]any
}

// mergerOf is what is remembered among objects, else a new merger.
func mergerOf(objects []any) *merger {
	for _, object := range objects {
		memory, is := object.(*remerge.Memory)
		if !is {
			continue
		}
		if known, is := memory.State.(*merger); is {
			return known
		}
		m := &merger{state: newState()}
		memory.State = m
		return m
	}
	return &merger{state: newState()}
}

// merge returns what [Merge] returns for the same objects without a memory.
func (m *merger) merge(objects []any) *Snapshot {
	now := byKey(objects, len(m.last))
	batch := map[objectKey]any{}
	for key, object := range now {
		if m.last[key] != object {
			batch[key] = object
		}
	}
	if len(now)-len(batch) < len(m.last) { // some are gone
		for key := range m.last {
			if _, there := now[key]; !there {
				batch[key] = nil
			}
		}
	}
	m.last = now
	if len(batch) > 0 || m.state.current.revision == 0 {
		m.state.apply(batch)
	}
	return m.state.current
}

// byKey are the objects of the kinds that a tracker reads, by their names.
func byKey(objects []any, size int) map[objectKey]any {
	all := make(map[objectKey]any, size)
	for _, object := range objects {
		switch object := object.(type) {
		case *resourceapi.ResourceSlice:
			all[objectKey{SliceKind, object.Name}] = object
		case *resourceapi.DeviceTaintRule:
			all[objectKey{RuleKind, object.Name}] = object
		case *v1alpha1.ResourceSlicePatch:
			all[objectKey{PatchKind, object.Name}] = object
		case *resourceapi.DeviceClass:
			all[objectKey{ClassKind, object.Name}] = object
		}
	}
	return all
}
