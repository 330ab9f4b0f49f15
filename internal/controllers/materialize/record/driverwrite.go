package record

import (
	"errors"
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Annotation holds the record of a ResourceSlice.
const Annotation = "dra-steward.io/materialized"

// A Write is the creation or update of a slice. Nothing of it is changed.
type Write struct {
	// Incoming is what shall be stored, Old what is stored now, nil on creation.
	Incoming, Old *resourceapi.ResourceSlice
	// Known is what is known of the devices of the pool from elsewhere: slices that are
	// gone, or other slices of the pool. It counts where neither slice has a record that
	// explains a value. It may be nil.
	Known Originals
	// Now is the time of the write.
	Now time.Time
}

// A DriverWrite is a write, and what the driver says with it.
type DriverWrite struct {
	// Slice is what the driver says: that of the write itself, if there is nothing of ours
	// in it. It is never changed.
	Slice *resourceapi.ResourceSlice

	write Write
	// sources are what is known, what counts more first; own are those of the slice, and text
	// is that of the first one.
	sources, own []Originals
	text         string
	// again reports that the incoming slice has been read and merged before.
	again bool
	// left are the entries that still mean something after this write.
	left Originals
}

// Published returns a stored slice as its driver published it; the slice itself where
// nothing differs. It fails if the record cannot be read.
func Published(slice *resourceapi.ResourceSlice) (*resourceapi.ResourceSlice, error) {
	if slice.Annotations[Annotation] == "" {
		return slice, nil
	}
	d, err := Read(Write{Incoming: slice, Old: slice})
	return d.Slice, err
}

// OriginalsOf returns the record of a slice, nil for none.
func OriginalsOf(slice *resourceapi.ResourceSlice) (Originals, error) {
	return Decode(slice.Annotations[Annotation])
}

// Read finds out what the driver says with a write. An error is about a record that cannot
// be read; the DriverWrite is made without it.
func Read(w Write) (*DriverWrite, error) {
	d := &DriverWrite{Slice: w.Incoming, write: w, text: w.Incoming.Annotations[Annotation]}
	incoming, err := Decode(d.text)
	if err != nil {
		d.text = ""
	}
	sources := []Originals{incoming}
	if w.Old != nil && w.Old.Annotations[Annotation] != w.Incoming.Annotations[Annotation] {
		old, oldErr := OriginalsOf(w.Old)
		err = errors.Join(err, oldErr)
		// That of the incoming slice is newer: it is there when the API server calls a
		// webhook twice for one write. Drivers leave it as it is, or out. It has all that
		// the others said and that still counts.
		if d.again = len(incoming) > 0; !d.again {
			sources = append(sources, old)
		}
	}
	d.own, d.sources = sources, sources
	if len(w.Known) > 0 && !d.again {
		d.sources = append(slices.Clone(sources), w.Known)
	}
	if slices.ContainsFunc(d.sources, func(l Originals) bool { return len(l) > 0 }) {
		old := devicesByName(d.write.Old)
		d.read(old)
		if !d.again && d.newPublication(old) {
			d.Slice, d.left = d.write.Incoming, nil
		}
	}
	return d, err
}

// read takes each value that we wrote for what the driver said.
func (d *DriverWrite) read(old map[string]*resourceapi.Device) {
	for i := range d.write.Incoming.Spec.Devices {
		in := &d.write.Incoming.Spec.Devices[i]
		own := false
		said, _ := d.recorded(in.Name)
		for k, before := range said.Entries {
			v := valueOf(in, k)
			e := d.decide(before, k, v, in.Name, old)
			if len(e.Former) > 0 || e.InForce() {
				if d.left == nil {
					d.left = Originals{}
				}
				d.left.add(in.Name, k, e)
			}
			if v.Equal(e.Published) {
				continue
			}
			if !own {
				own = true
				d.copy(i)
			}
			put(&d.Slice.Spec.Devices[i], k, e.Published)
		}
	}
}

// newPublication reports whether the driver says something else than before, as the values
// that we did not write show. Then it has not repeated what it took over from us, and every
// value is its own: also one that is absent, and one that a patch has written, too.
func (d *DriverWrite) newPublication(old map[string]*resourceapi.Device) bool {
	for _, l := range d.own {
		if said, recorded := l[whole]; recorded {
			return said.View != viewOfAll(d.Slice)
		}
	}
	if d.write.Old != nil && len(old) != len(d.write.Incoming.Spec.Devices) {
		return true
	}
	for i := range d.write.Incoming.Spec.Devices {
		in := &d.write.Incoming.Spec.Devices[i]
		stored := old[in.Name]
		said, recorded := d.recorded(in.Name)
		switch {
		case recorded:
			if said.View != 0 && said.View != viewOf(&d.Slice.Spec.Devices[i]) {
				return true
			}
		case stored == nil && d.write.Old != nil, stored != nil && viewOf(stored) != viewOf(in):
			return true
		}
	}
	return false
}

// recorded returns what is known of a device. What counts most is the record of the slice.
func (d *DriverWrite) recorded(device string) (Device, bool) {
	for _, l := range d.sources {
		if said, has := l[device]; has {
			return said, true
		}
	}
	return Device{}, false
}

// copy makes a device of the slice of the DriverWrite a copy.
func (d *DriverWrite) copy(device int) {
	if d.Slice == d.write.Incoming {
		slice := *d.write.Incoming
		slice.Spec.Devices = slices.Clone(slice.Spec.Devices)
		d.Slice = &slice
	}
	at := &d.Slice.Spec.Devices[device]
	at.Attributes, at.Capacity = maps.Clone(at.Attributes), maps.Clone(at.Capacity)
}

// decide finds out what a driver says with the value of a key, of which there is an entry.
// The entry that it returns has in Published what that is, and is otherwise the one of
// before, as far as it counts.
func (d *DriverWrite) decide(entry Entry, k Key, v Value, device string, old map[string]*resourceapi.Device) Entry {
	now := d.write.Now
	ours := entry.wrote(v, now)
	entry.Former = slices.DeleteFunc(slices.Clone(entry.Former), func(f FormerValue) bool { return !f.counts(now) })
	changes := true
	if stored := old[device]; stored != nil {
		was := valueOf(stored, k)
		// The second of two calls for a write that takes a former value back looks as if the
		// driver did that.
		changes = !was.Equal(v) && !(v.Equal(entry.Published) && entry.former(was, now) >= 0)
	}
	if d.again && v.Equal(entry.Published) {
		changes = false
	}
	switch {
	case !ours && changes: // the driver's own word; what was written is forgotten
		return Entry{Published: v}
	case !ours:
		entry.Published = v
	case changes && !(entry.InForce() && v.Equal(entry.Written)) && d.write.Old != nil:
		entry.expireOthers(v, now)
	}
	return entry
}

// expireOthers records that the driver has written a former value and receives another one in the
// answer.
func (e Entry) expireOthers(v Value, now time.Time) {
	if e.former(v, now) < 0 {
		return
	}
	for i := range e.Former { // it holds this one, and so none of the others any more
		if e.Former[i].Until == 0 {
			e.Former[i].Until = now.Add(GracePeriod).Unix()
		}
	}
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
