package record

import (
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Originals say of the devices of a slice, by name, what their driver said where we wrote
// something else. They do not change once they are made. Those of a slice have the view of all
// devices together, too, under the name [whole].
type Originals map[string]Device

// whole is no valid name of a device.
const whole = ""

// A Device is what a record says of one device.
type Device struct {
	// View is what the driver said of the whole device. Where a write says something else,
	// it is a new publication. Zero is unknown.
	View View
	// Entries are empty for a device whose values all are the driver's own again.
	Entries map[Key]Entry
	// Until is how long a device without entries stays in the record, in seconds since 1970.
	// Meanwhile every replica learns that the entries that it knows count no longer.
	Until int64
}

// counts reports whether a value could still be one that we wrote.
func (d Device) counts(now time.Time) bool {
	for _, e := range d.Entries {
		if e.InForce() || slices.ContainsFunc(e.Previous, func(f PreviousValue) bool { return f.counts(now) }) {
			return true
		}
	}
	return false
}

// An Entry is about one attribute or capacity of a device.
type Entry struct {
	// Published is what the driver said.
	Published Value
	// Written is what we wrote, and Patch the name of the ResourceSlicePatch that says so.
	// A tombstone has none of them.
	Written Value
	Patch   string
	// Previous are values that were written before, and that the driver may still take for
	// its own.
	Previous []PreviousValue
}

// InForce reports that the entry is not a tombstone.
func (e Entry) InForce() bool { return e.Patch != "" }

// A PreviousValue is a value that was written.
type PreviousValue struct {
	Value Value
	// Until is when it counts as the driver's own again, in seconds since 1970: some time
	// after the driver wrote it and was corrected. 0: that has not happened.
	Until int64
}

// GracePeriod is how long a value of ours still counts as ours after a driver was corrected,
// in case the driver did not receive the answer.
const GracePeriod = 5 * time.Minute

// maxPrevious bounds the previous values of one entry; the oldest go.
const maxPrevious = 8

// A Count is the size of a record, in attributes and capacities.
type Count struct {
	// InForce have a value of ours in the slice.
	InForce int
	// Waiting have none any more, but the driver may still write one as its own.
	Waiting int
	// Settled wait for nothing.
	Settled int
}

// Count counts the entries.
func (l Originals) Count() (n Count) {
	for _, device := range l {
		for _, e := range device.Entries {
			switch {
			case e.InForce():
				n.InForce++
			case slices.ContainsFunc(e.Previous, func(f PreviousValue) bool { return f.Until == 0 }):
				n.Waiting++
			default:
				n.Settled++
			}
		}
	}
	return n
}

// Equal reports whether two records have the same content.
func (l Originals) Equal(other Originals) bool {
	return maps.EqualFunc(l, other, func(a, b Device) bool {
		return a.View == b.View && a.Until == b.Until && maps.EqualFunc(a.Entries, b.Entries, Entry.equal)
	})
}

// SameInForce is Equal for what is not a tombstone.
func (l Originals) SameInForce(other Originals) bool { return l.covers(other) && other.covers(l) }

func (l Originals) covers(other Originals) bool {
	for device, said := range other {
		for k, e := range said.Entries {
			if !e.InForce() {
				continue
			}
			mine, known := l[device].Entries[k]
			if !known || mine.Patch != e.Patch || !mine.Published.Equal(e.Published) || !mine.Written.Equal(e.Written) {
				return false
			}
		}
	}
	return true
}

func (e Entry) equal(other Entry) bool {
	return e.Patch == other.Patch && e.Published.Equal(other.Published) && e.Written.Equal(other.Written) &&
		slices.EqualFunc(e.Previous, other.Previous, func(a, b PreviousValue) bool { return a.Until == b.Until && a.Value.Equal(b.Value) })
}

func (l Originals) add(device string, k Key, e Entry) {
	if l[device].Entries == nil {
		l[device] = Device{Entries: map[Key]Entry{}}
	}
	l[device].Entries[k] = e
}

// wrote reports whether a value of a device is one that we wrote: the one of now, or a
// previous one.
func (e Entry) wrote(v Value, now time.Time) bool {
	return e.InForce() && v.Equal(e.Written) || e.previous(v, now) >= 0
}

// kept is the entry without request policies for a device that is not shared, which has none: an API
// server drops both where DRAConsumableCapacity is off.
func (e Entry) kept(d *resourceapi.Device) Entry {
	if d.AllowMultipleAllocations != nil {
		return e
	}
	e.Published, e.Written, e.Previous = e.Published.unshared(), e.Written.unshared(), slices.Clone(e.Previous)
	for i := range e.Previous {
		e.Previous[i].Value = e.Previous[i].Value.unshared()
	}
	return e
}

func (e Entry) previous(v Value, now time.Time) int {
	return slices.IndexFunc(e.Previous, func(f PreviousValue) bool { return f.counts(now) && f.Value.Equal(v) })
}

func (f PreviousValue) counts(now time.Time) bool { return f.Until == 0 || now.Unix() < f.Until }

// Explains reports whether a device has a value that we wrote, or did, and its driver says nothing
// else than it said then. In a new publication all values are the driver's own.
func (l Originals) Explains(device *resourceapi.Device, now time.Time) bool {
	said, explained := l[device.Name], false
	published := *device
	for k, e := range said.Entries {
		if e = e.kept(device); !e.wrote(valueOf(device, k), now) {
			continue
		}
		if !explained {
			explained = true
			published.Attributes, published.Capacity = maps.Clone(device.Attributes), maps.Clone(device.Capacity)
		}
		put(&published, k, e.Published)
	}
	return explained && (said.View == 0 || said.View == viewOf(&published))
}

// The Lease of a scheduler that applies ResourceSlicePatches itself, which it renews while it
// runs. While it is in force, patches are written into no slice: to have them applied twice
// is of no use, and drivers are written over for it.
const (
	SchedulerLeaseNamespace = "kube-system"
	SchedulerLeaseName      = "dra-steward-scheduler"
)
