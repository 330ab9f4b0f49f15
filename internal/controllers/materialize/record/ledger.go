package record

import (
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// A Ledger says of the devices of a slice, by name, what their driver said where we wrote
// something else. It does not change once it is made.
type Ledger map[string]map[Key]Entry

// An Entry is about one attribute or capacity of a device.
type Entry struct {
	// Published is what the driver said.
	Published Value
	// Written is what we wrote, and Patch the name of the ResourceSlicePatch that says so.
	// A tombstone has none of them.
	Written Value
	Patch   string
	// Former are values that were written before, and that the driver may still take for
	// its own.
	Former []Former
}

// InForce reports that the entry is not a tombstone.
func (e Entry) InForce() bool { return e.Patch != "" }

// A Former is a value that was written.
type Former struct {
	Value Value
	// Until is when it counts as the driver's own again, in seconds since 1970: some time
	// after the driver wrote it and was corrected. 0: that has not happened.
	Until int64
}

// Settling is how long a value of ours still counts as ours after a driver was corrected,
// in case the driver did not receive the answer.
const Settling = 5 * time.Minute

// maxFormer bounds the former values of one entry; the oldest go.
const maxFormer = 8

// A Count is the size of a ledger, in attributes and capacities.
type Count struct {
	// InForce have a value of ours in the slice.
	InForce int
	// Waiting have none any more, but the driver may still write one as its own.
	Waiting int
	// Settled wait for nothing.
	Settled int
}

// Count counts the entries.
func (l Ledger) Count() (n Count) {
	for _, entries := range l {
		for _, e := range entries {
			switch {
			case e.InForce():
				n.InForce++
			case slices.ContainsFunc(e.Former, func(f Former) bool { return f.Until == 0 }):
				n.Waiting++
			default:
				n.Settled++
			}
		}
	}
	return n
}

// Equal reports whether two ledgers have the same content.
func (l Ledger) Equal(other Ledger) bool {
	return maps.EqualFunc(l, other, func(a, b map[Key]Entry) bool { return maps.EqualFunc(a, b, Entry.equal) })
}

// SameInForce is Equal for what is not a tombstone.
func (l Ledger) SameInForce(other Ledger) bool { return l.covers(other) && other.covers(l) }

func (l Ledger) covers(other Ledger) bool {
	for device, entries := range other {
		for k, e := range entries {
			if !e.InForce() {
				continue
			}
			mine, known := l[device][k]
			if !known || mine.Patch != e.Patch || !mine.Published.Equal(e.Published) || !mine.Written.Equal(e.Written) {
				return false
			}
		}
	}
	return true
}

func (e Entry) equal(other Entry) bool {
	return e.Patch == other.Patch && e.Published.Equal(other.Published) && e.Written.Equal(other.Written) &&
		slices.EqualFunc(e.Former, other.Former, func(a, b Former) bool { return a.Until == b.Until && a.Value.Equal(b.Value) })
}

func (l Ledger) add(device string, k Key, e Entry) {
	if l[device] == nil {
		l[device] = map[Key]Entry{}
	}
	l[device][k] = e
}

// wrote reports whether a value of a device is one that we wrote: the one of now, or a
// former one.
func (e Entry) wrote(v Value, now time.Time) bool {
	return e.InForce() && v.Equal(e.Written) || e.former(v, now) >= 0
}

func (e Entry) former(v Value, now time.Time) int {
	return slices.IndexFunc(e.Former, func(f Former) bool { return f.counts(now) && f.Value.Equal(v) })
}

func (f Former) counts(now time.Time) bool { return f.Until == 0 || now.Unix() < f.Until }

// Explains reports whether a device has a value that we wrote, or did.
func (l Ledger) Explains(device *resourceapi.Device, now time.Time) bool {
	for k, e := range l[device.Name] {
		if e.wrote(valueOf(device, k), now) {
			return true
		}
	}
	return false
}
