package record

import (
	resourceapi "k8s.io/api/resource/v1"
)

// About how much memory the parts of a record need, without their texts and lists.
const (
	bytesPerDevice   = 100
	bytesPerEntry    = 110 // in a map, which has room for eight at least
	bytesPerPrevious = 24
	bytesPerValue    = 160
	bytesPerPolicy   = 400
	bytesPerItem     = 72
)

// Bytes is about how much memory a record needs. Values that several devices share count once.
func (l Originals) Bytes() (bytes int) {
	counted := map[any]bool{}
	add := func(v Value) {
		if a := v.Attribute; a != nil && !counted[a] {
			counted[a] = true
			bytes += bytesOfAttribute(a)
		}
		if c := v.Capacity; c != nil && !counted[c] {
			counted[c] = true
			bytes += bytesOfCapacity(c)
		}
	}
	for name, device := range l {
		bytes += bytesPerDevice + len(name) + bytesPerEntry*slots(len(device.Entries))
		for k, e := range device.Entries {
			bytes += len(k.Name) + len(e.Patch) + bytesPerPrevious*cap(e.Previous)
			add(e.Published)
			add(e.Written)
			for _, f := range e.Previous {
				add(f.Value)
			}
		}
	}
	return bytes
}

// slots is for how many entries a map has room that holds a number of them.
func slots(entries int) int {
	if entries == 0 {
		return 0
	}
	room := 8
	for room < entries || room > 8 && room*7/8 < entries {
		room *= 2
	}
	return room
}

func bytesOfAttribute(a *resourceapi.DeviceAttribute) int {
	bytes := bytesPerValue + 8*cap(a.IntValues) + cap(a.BoolValues)
	for _, text := range []*string{a.StringValue, a.VersionValue} {
		if text != nil {
			bytes += len(*text)
		}
	}
	for _, texts := range [][]string{a.StringValues, a.VersionValues} {
		bytes += 16 * cap(texts)
		for _, text := range texts {
			bytes += len(text)
		}
	}
	return bytes
}

func bytesOfCapacity(c *resourceapi.DeviceCapacity) int {
	if c.RequestPolicy == nil {
		return bytesPerValue
	}
	return bytesPerValue + bytesPerPolicy + bytesPerItem*cap(c.RequestPolicy.ValidValues)
}
