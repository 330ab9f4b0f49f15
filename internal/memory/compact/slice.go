// Package compact makes objects that are kept in memory smaller, without changing what they say.
package compact

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
)

// Slice makes the devices of a slice share equal strings and equal capacities. The devices of a node are mostly
// alike, and a decoder makes a copy for each. Nothing else may use the slice during the call, and no part of it may
// change later.
//
// The slices of 5,000 nodes take 136 MiB instead of 172 (TestHeap in test/scale/measure). Delete it when client-go decodes
// objects with shared strings.
func Slice(slice *resourceapi.ResourceSlice) {
	devices := slice.Spec.Devices
	if len(devices) < 2 {
		return
	}
	known := copies{}
	for i := range devices {
		device := &devices[i]
		known.attributes(device.Attributes)
		if i > 0 && maps.Equal(device.Capacity, devices[i-1].Capacity) {
			device.Capacity = devices[i-1].Capacity
		}
	}
}

// copies are the strings of an object, each by its text.
type copies map[string]*string

func (c copies) pointer(s *string) *string {
	if s == nil {
		return nil
	}
	if known, is := c[*s]; is {
		return known
	}
	c[*s] = s
	return s
}

func (c copies) text(s string) string { return *c.pointer(&s) }

// attributes makes values refer to known strings. The map is emptied first because one with eight entries grows to
// twice the size when a value is set again.
func (c copies) attributes(values map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) {
	type entry struct {
		name  resourceapi.QualifiedName
		value resourceapi.DeviceAttribute
	}
	all := make([]entry, 0, len(values))
	for name, value := range values {
		value.StringValue, value.VersionValue = c.pointer(value.StringValue), c.pointer(value.VersionValue)
		all = append(all, entry{resourceapi.QualifiedName(c.text(string(name))), value})
	}
	clear(values)
	for _, e := range all {
		values[e.name] = e.value
	}
}
