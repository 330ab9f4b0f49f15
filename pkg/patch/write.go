package patch

import (
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// An Effect is what became of an attribute or capacity of a device.
type Effect byte

const (
	// Unchanged: the device had the value already, or not the attribute to remove.
	Unchanged Effect = iota
	// Added: the device did not have it.
	Added
	// Replaced: the device had another value.
	Replaced
	// Removed: the device had it.
	Removed
	// Skipped: there was no room for it.
	Skipped

	pending
	effectMask Effect = 7

	// What more there is to say is kept in the bits above.
	typeChanged    Effect = 1 << 3
	policyViolated Effect = 1 << 4
	policyDropped  Effect = 1 << 5
	shortSpelling  Effect = 1 << 6
)

// String returns the name of the effect.
func (e Effect) String() string {
	names := [...]string{"Unchanged", "Added", "Replaced", "Removed", "Skipped"}
	if int(e&effectMask) < len(names) {
		return names[e&effectMask]
	}
	return "Unknown"
}

// A place is where a map has an attribute or capacity. A driver may leave its own name
// out of the name, which means the same as the full name.
type place struct {
	name resourceapi.QualifiedName
	// other is a second spelling of the same name, which has to go.
	other resourceapi.QualifiedName
	known bool
	short Effect
}

func placeOf[V any](of map[resourceapi.QualifiedName]V, c *change, driver resourceapi.QualifiedName) place {
	p := place{name: resourceapi.QualifiedName(c.key.Qualified)}
	_, p.known = of[p.name]
	if c.domain != driver {
		return p
	}
	if _, short := of[c.id]; short {
		if p.known {
			p.other = p.name
		}
		p.name, p.known, p.short = c.id, true, shortSpelling
	}
	return p
}

// replace does what needs no room. It is not done if the entry does.
func (w *writer) replace(e *entry) (effect Effect, done bool) {
	if e.key.Capacity {
		at := placeOf(w.device.Capacity, e.change, w.driver)
		if !at.known {
			return 0, false
		}
		return w.replaceCapacity(e, at), true
	}
	at := placeOf(w.device.Attributes, e.change, w.driver)
	switch {
	case e.attribute == nil && !at.known:
		return Unchanged, true
	case e.attribute == nil:
		delete(w.attributes(), at.name)
		delete(w.device.Attributes, at.other)
		return Removed | at.short, true
	case !at.known:
		return 0, false
	}
	before := w.device.Attributes[at.name]
	if values(e.attribute) > values(&before) || w.crowded && isList(e.attribute) && !isList(&before) {
		return 0, false
	}
	return w.replaceAttribute(e, at, &before), true
}

func (w *writer) replaceAttribute(e *entry, at place, before *resourceapi.DeviceAttribute) Effect {
	if at.other != "" {
		delete(w.attributes(), at.other)
	} else if equal(before, e.attribute) {
		return Unchanged | at.short
	}
	w.attributes()[at.name] = *e.attribute
	if kind(before) != kind(e.attribute) {
		return Replaced | typeChanged | at.short
	}
	return Replaced | at.short
}

func (w *writer) replaceCapacity(e *entry, at place) Effect {
	before := w.device.Capacity[at.name]
	after := resourceapi.DeviceCapacity{Value: e.capacity.Value, RequestPolicy: before.RequestPolicy}
	notes := w.policy(e, &after)
	if at.other != "" {
		delete(w.capacity(), at.other)
	} else if before.Value.Cmp(after.Value) == 0 && (before.RequestPolicy == after.RequestPolicy || reflect.DeepEqual(before.RequestPolicy, after.RequestPolicy)) {
		return Unchanged | notes | at.short
	}
	w.capacity()[at.name] = after
	return Replaced | notes | at.short
}

// policy puts the request policy of the patch, if it has one, into a capacity. A policy
// belongs to devices that are shared.
func (w *writer) policy(e *entry, after *resourceapi.DeviceCapacity) (notes Effect) {
	if own := e.capacity.RequestPolicy; own != nil {
		if shared := w.device.AllowMultipleAllocations; shared != nil && *shared {
			after.RequestPolicy = own
		} else {
			notes = policyDropped
		}
	}
	if violates(after) {
		notes |= policyViolated
	}
	return notes
}

// violates tells whether a capacity is less than its policy hands out.
func violates(c *resourceapi.DeviceCapacity) bool {
	policy := c.RequestPolicy
	if policy == nil {
		return false
	}
	if policy.Default != nil && policy.Default.Cmp(c.Value) > 0 {
		return true
	}
	for i := range policy.ValidValues {
		if policy.ValidValues[i].Cmp(c.Value) > 0 {
			return true
		}
	}
	span := policy.ValidRange
	return span != nil && (span.Min != nil && span.Min.Cmp(c.Value) > 0 || span.Max != nil && span.Max.Cmp(c.Value) > 0)
}

// grow does what needs room, if there is enough.
func (w *writer) grow(e *entry, left *room) Effect {
	if e.key.Capacity {
		if left.names <= 0 {
			return Skipped
		}
		left.names--
		after := resourceapi.DeviceCapacity{Value: e.capacity.Value}
		notes := w.policy(e, &after)
		w.capacity()[resourceapi.QualifiedName(e.key.Qualified)] = after
		return Added | notes
	}
	at := placeOf(w.device.Attributes, e.change, w.driver)
	before := w.device.Attributes[at.name]
	needed := room{values: values(e.attribute)}
	if at.known {
		needed.values -= values(&before)
	} else {
		needed.names = 1
	}
	if other, twice := w.device.Attributes[at.other]; twice && at.other != "" {
		needed.values -= values(&other)
		needed.names--
	}
	if needed.names > left.names || needed.values > left.values || w.crowded && isList(e.attribute) {
		return Skipped | at.short
	}
	left.names -= needed.names
	left.values -= needed.values
	if at.known {
		return w.replaceAttribute(e, at, &before)
	}
	w.attributes()[at.name] = *e.attribute
	return Added
}

// equal compares attributes, of which this is done for all keys of all devices.
func equal(a, b *resourceapi.DeviceAttribute) bool {
	return same(a.IntValue, b.IntValue) && same(a.BoolValue, b.BoolValue) &&
		same(a.StringValue, b.StringValue) && same(a.VersionValue, b.VersionValue) &&
		slices.Equal(a.IntValues, b.IntValues) && slices.Equal(a.BoolValues, b.BoolValues) &&
		slices.Equal(a.StringValues, b.StringValues) && slices.Equal(a.VersionValues, b.VersionValues)
}

func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// kind numbers the types of attributes.
func kind(a *resourceapi.DeviceAttribute) int {
	for i, is := range [...]bool{
		a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if is {
			return i
		}
	}
	return -1
}
