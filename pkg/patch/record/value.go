package record

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// A Key names an attribute or capacity as a device spells it.
type Key struct {
	Name     resourceapi.QualifiedName
	Capacity bool
}

// qualified is the name with its domain, which is that of the driver if the device leaves it out.
func (k Key) qualified(driver string) resourceapi.FullyQualifiedName {
	if strings.Contains(string(k.Name), "/") {
		return resourceapi.FullyQualifiedName(k.Name)
	}
	return resourceapi.FullyQualifiedName(driver + "/" + string(k.Name))
}

// A Value is that of an attribute or of a capacity. The zero value is none: the device
// does not have it.
type Value struct {
	Attribute *resourceapi.DeviceAttribute `json:"a,omitempty"`
	Capacity  *resourceapi.DeviceCapacity  `json:"c,omitempty"`
}

// absent reports that there is no value.
func (v Value) absent() bool { return v.Attribute == nil && v.Capacity == nil }

// Equal reports whether two values mean the same.
func (v Value) Equal(other Value) bool {
	switch {
	case (v.Attribute == nil) != (other.Attribute == nil) || (v.Capacity == nil) != (other.Capacity == nil):
		return false
	case v.Attribute != nil && !equalAttributes(v.Attribute, other.Attribute):
		return false
	}
	return v.Capacity == nil || equalCapacities(v.Capacity, other.Capacity)
}

func equalAttributes(a, b *resourceapi.DeviceAttribute) bool {
	return same(a.StringValue, b.StringValue) && same(a.IntValue, b.IntValue) &&
		same(a.BoolValue, b.BoolValue) && same(a.VersionValue, b.VersionValue) &&
		slices.Equal(a.IntValues, b.IntValues) && slices.Equal(a.BoolValues, b.BoolValues) &&
		slices.Equal(a.StringValues, b.StringValues) && slices.Equal(a.VersionValues, b.VersionValues)
}

func equalCapacities(a, b *resourceapi.DeviceCapacity) bool {
	return a.Value.Cmp(b.Value) == 0 &&
		(a.RequestPolicy == nil && b.RequestPolicy == nil || equality.Semantic.DeepEqual(a.RequestPolicy, b.RequestPolicy))
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// unshared is the value without a request policy.
func (v Value) unshared() Value {
	if v.Capacity == nil || v.Capacity.RequestPolicy == nil {
		return v
	}
	return Value{Capacity: &resourceapi.DeviceCapacity{Value: v.Capacity.Value}}
}

// valueOf is what a device has.
func valueOf(d *resourceapi.Device, k Key) (v Value) {
	if k.Capacity {
		if c, has := d.Capacity[k.Name]; has {
			v.Capacity = &c
		}
	} else if a, has := d.Attributes[k.Name]; has {
		v.Attribute = &a
	}
	return v
}

// put gives a device a value or takes it away. The map must be its own.
func put(d *resourceapi.Device, k Key, v Value) {
	switch {
	case k.Capacity && v.Capacity == nil:
		delete(d.Capacity, k.Name)
	case k.Capacity:
		if d.Capacity == nil {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
		}
		d.Capacity[k.Name] = *v.Capacity
	case v.Attribute == nil:
		delete(d.Attributes, k.Name)
	default:
		if d.Attributes == nil {
			d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
		}
		d.Attributes[k.Name] = *v.Attribute
	}
}

// differing yields the keys whose values differ between two versions of a device.
func differing(a, b *resourceapi.Device) (keys []Key) {
	each := func(d, other *resourceapi.Device, both bool) {
		for name := range d.Attributes {
			k := Key{Name: name}
			_, has := other.Attributes[name]
			if !has || both && !valueOf(d, k).Equal(valueOf(other, k)) {
				keys = append(keys, k)
			}
		}
		for name := range d.Capacity {
			k := Key{Name: name, Capacity: true}
			_, has := other.Capacity[name]
			if !has || both && !valueOf(d, k).Equal(valueOf(other, k)) {
				keys = append(keys, k)
			}
		}
	}
	each(a, b, true)
	each(b, a, false)
	return keys
}

// SameDevices reports whether two versions of a slice agree in attributes and capacities.
func SameDevices(a, b *resourceapi.ResourceSlice) bool {
	return a == b || slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(a, b resourceapi.Device) bool {
		return a.Name == b.Name && len(differing(&a, &b)) == 0
	})
}
