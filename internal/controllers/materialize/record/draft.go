package record

import (
	"errors"
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Annotation holds the ledger of a ResourceSlice.
const Annotation = "dra-steward.io/materialized"

// A Write is the creation or update of a slice. Nothing of it is changed.
type Write struct {
	// Incoming is what shall be stored, Old what is stored now, nil on creation.
	Incoming, Old *resourceapi.ResourceSlice
	// Known is what is known of the devices of the pool from elsewhere: slices that are
	// gone, or other slices of the pool. It counts where neither slice has a ledger that
	// explains a value. It may be nil.
	Known Ledger
	// Now is the time of the write.
	Now time.Time
}

// A Draft is a write of which it is known what the driver says.
type Draft struct {
	// Slice is what the driver says: that of the write itself, if there is nothing of ours
	// in it. It is never changed.
	Slice *resourceapi.ResourceSlice

	write Write
	// ledgers are what is known, what counts more first; text is that of the first one.
	ledgers []Ledger
	text    string
	// again reports that the incoming slice has been read and merged before.
	again bool
	// left are the entries that still mean something after this write.
	left Ledger
}

// Published returns a stored slice as its driver published it; the slice itself where
// nothing differs. It fails if the ledger cannot be read.
func Published(slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	if slice.Annotations[Annotation] == "" {
		return slice, nil
	}
	d, err := Read(Write{Incoming: slice, Old: slice})
	return d.Slice, err
}

// LedgerOf returns the ledger of a slice, nil for none.
func LedgerOf(slice *resourceapi.ResourceSlice) (Ledger, error) {
	return Decode(slice.Annotations[Annotation])
}

// Read finds out what the driver says with a write. An error is about a ledger that cannot
// be read; the draft is made without it.
func Read(w Write) (*Draft, error) {
	d := &Draft{Slice: w.Incoming, write: w, text: w.Incoming.Annotations[Annotation]}
	incoming, err := Decode(d.text)
	if err != nil {
		d.text = ""
	}
	ledgers := []Ledger{incoming}
	if w.Old != nil && w.Old.Annotations[Annotation] != w.Incoming.Annotations[Annotation] {
		old, oldErr := LedgerOf(w.Old)
		err = errors.Join(err, oldErr)
		// That of the incoming slice is newer: it is there when the API server calls a
		// webhook twice for one write. Drivers leave it as it is, or out.
		ledgers = append(ledgers, old)
		d.again = len(incoming) > 0
	}
	if len(w.Known) > 0 {
		ledgers = append(ledgers, w.Known)
	}
	d.ledgers = ledgers
	if slices.ContainsFunc(ledgers, func(l Ledger) bool { return len(l) > 0 }) {
		d.read()
	}
	return d, err
}

func (d *Draft) read() {
	old := devicesByName(d.write.Old)
	for i := range d.write.Incoming.Spec.Devices {
		in := &d.write.Incoming.Spec.Devices[i]
		own := false
		for k := range keysOf(in.Name, d.ledgers) {
			v := valueOf(in, k)
			e := d.decide(k, v, in.Name, old)
			if len(e.Former) > 0 || e.InForce() {
				if d.left == nil {
					d.left = Ledger{}
				}
				d.left.add(in.Name, k, e)
			}
			if v.Equal(e.Published) {
				continue
			}
			if !own {
				own = true
				d.own(i)
			}
			put(&d.Slice.Spec.Devices[i], k, e.Published)
		}
	}
}

// own makes a device of the draft's slice a copy.
func (d *Draft) own(device int) {
	if d.Slice == d.write.Incoming {
		slice := *d.write.Incoming
		slice.Spec.Devices = slices.Clone(slice.Spec.Devices)
		d.Slice = &slice
	}
	at := &d.Slice.Spec.Devices[device]
	at.Attributes, at.Capacity = maps.Clone(at.Attributes), maps.Clone(at.Capacity)
}

// decide finds out what a driver says with the value of a key. The entry that it returns
// has in Published what that is, and is otherwise the one of before, as far as it counts.
func (d *Draft) decide(k Key, v Value, device string, old map[string]*resourceapi.Device) Entry {
	now := d.write.Now
	var entry Entry
	found, ours := false, false
	for _, l := range d.ledgers {
		e, has := l[device][k]
		if !has {
			continue
		}
		if ours = e.wrote(v, now); ours {
			entry, found = e, true
			break
		}
		if !found {
			entry, found = e, true
		}
	}
	entry.Former = slices.DeleteFunc(slices.Clone(entry.Former), func(f Former) bool { return !f.counts(now) })
	changes := true
	if stored := old[device]; stored != nil {
		changes = !valueOf(stored, k).Equal(v)
	}
	if mine, explained := d.ledgers[0][device][k]; d.again && explained && v.Equal(mine.Published) {
		changes = false
	}
	switch {
	case !ours && changes: // the driver's own word; what was written is forgotten
		return Entry{Published: v}
	case !ours:
		entry.Published = v
	case changes && !(entry.InForce() && v.Equal(entry.Written)) && d.write.Old != nil:
		entry.told(v, now)
	}
	return entry
}

// told notes that the driver has written a former value and receives another one in the
// answer.
func (e Entry) told(v Value, now time.Time) {
	if e.former(v, now) < 0 {
		return
	}
	for i := range e.Former { // it holds this one, and so none of the others any more
		if e.Former[i].Until == 0 {
			e.Former[i].Until = now.Add(Settling).Unix()
		}
	}
}

// keysOf are the keys of all ledgers for a device.
func keysOf(device string, ledgers []Ledger) map[Key]bool {
	keys := map[Key]bool{}
	for _, l := range ledgers {
		for k := range l[device] {
			keys[k] = true
		}
	}
	return keys
}

func devicesByName(slice *resourceapi.ResourceSlice) map[string]*resourceapi.Device {
	if slice == nil {
		return nil
	}
	all := make(map[string]*resourceapi.Device, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		all[slice.Spec.Devices[i].Name] = &slice.Spec.Devices[i]
	}
	return all
}
