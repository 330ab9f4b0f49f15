// Package compact makes objects that are kept in memory smaller, without changing what they say.
package compact

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
)

// Slice makes the devices of a slice share equal strings and equal capacities. The devices of a node are mostly alike, and
// a decoder makes a copy for each. Nothing else may use the slice during the call, and no part of it may change later.
func Slice(slice *resourceapi.ResourceSlice) {
	devices := slice.Spec.Devices
	if len(devices) < 2 {
		return
	}
	known := copies{}
	for i := range devices {
		device := &devices[i]
		device.Attributes = known.attributes(device.Attributes)
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

// attributes returns a copy that refers to known strings. It is another map because one with eight entries grows to twice the
// size when a value is set again.
func (c copies) attributes(values map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	if values == nil {
		return nil
	}
	all := make(map[resourceapi.QualifiedName]resourceapi.DeviceAttribute, len(values))
	for name, value := range values {
		value.StringValue, value.VersionValue = c.pointer(value.StringValue), c.pointer(value.VersionValue)
		all[resourceapi.QualifiedName(c.text(string(name)))] = value
	}
	return all
}
