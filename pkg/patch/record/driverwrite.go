package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/pkg/patch"
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

// Published returns a stored slice as its driver published it, with numbers of at most 1e1000; the slice itself where
// nothing differs. It fails, and returns the stored slice, if the record cannot be read or has
// an invalid value, which no API server has checked.
func Published(slice *resourceapi.ResourceSlice, now time.Time) (*resourceapi.ResourceSlice, error) {
	slice = quantity.Capped(slice)
	if slice.Annotations[Annotation] == "" {
		return slice, nil
	}
	d, err := Read(Write{Incoming: slice, Old: slice, Now: now})
	if err == nil && d.Slice != slice {
		err = d.fault()
	}
	if err != nil {
		return slice, err
	}
	return d.Slice, nil
}

// fault returns what is invalid in the values that the record has put into the slice: the same
// as in a patch.
func (d *DriverWrite) fault() error {
	for i := range d.Slice.Spec.Devices {
		device, stored := &d.Slice.Spec.Devices[i], &d.write.Incoming.Spec.Devices[i]
		if n, most := sizeOf(device), max(sizeOf(stored), resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice); n > most {
			return fmt.Errorf("originals of patches: device %s: has %d attributes and capacities, of at most %d", device.Name, n, most)
		}
		values := v1alpha1.DevicePatch{Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{}, Capacity: map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{}}
		for _, k := range differing(stored, device) {
			switch v := valueOf(device, k); {
			case v.Capacity != nil:
				values.Capacity[k.qualified(d.Slice.Spec.Driver)] = *v.Capacity
			case v.Attribute != nil:
				values.Attributes[k.qualified(d.Slice.Spec.Driver)] = v1alpha1.NullableDeviceAttribute{DeviceAttribute: *v.Attribute}
			}
		}
		compiled := new(patch.Compiler).Compile(&v1alpha1.ResourceSlicePatch{Spec: v1alpha1.ResourceSlicePatchSpec{Devices: values}}, nil)
		if len(compiled.Problems) > 0 {
			return fmt.Errorf("originals of patches: device %s: %s", device.Name, compiled.Problems[0].Message)
		}
	}
	return nil
}

func sizeOf(d *resourceapi.Device) int { return len(d.Attributes) + len(d.Capacity) }

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
			before = before.kept(in)
			v := valueOf(in, k)
			e := d.decide(before, k, v, in.Name, old)
			if len(e.Previous) > 0 || e.InForce() {
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
	entry.Previous = slices.DeleteFunc(slices.Clone(entry.Previous), func(f PreviousValue) bool { return !f.counts(now) })
	changes := true
	if stored := old[device]; stored != nil {
		was := valueOf(stored, k)
		// The second of two calls for a write that takes a previous value back looks as if the
		// driver did that.
		changes = !was.Equal(v) && !(v.Equal(entry.Published) && entry.previous(was, now) >= 0)
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

// expireOthers records that the driver has written a previous value and receives another one in the
// answer.
func (e Entry) expireOthers(v Value, now time.Time) {
	if e.previous(v, now) < 0 {
		return
	}
	for i := range e.Previous { // it holds this one, and so none of the others any more
		if e.Previous[i].Until == 0 {
			e.Previous[i].Until = now.Add(GracePeriod).Unix()
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

// annotationsLimit is what all annotations of an object may have together, names and
// values: TotalAnnotationSizeLimitB of k8s.io/apimachinery.
const annotationsLimit = 256 << 10

// A Merged is the result of merging a write.
type Merged struct {
	// Slice is what is to be stored: the incoming slice itself if nothing is to change. It
	// shares with that what it can.
	Slice *resourceapi.ResourceSlice
	// Originals is the one that the slice then has.
	Originals Originals
	// Refused says why the patches are not in the slice although they match; nil if they
	// are, but for what is Blocked.
	Refused error
	// Blocked are the parts of patches that are left out.
	Blocked []Blocked
}

// A Blocked is an attribute or capacity of a patch that is not written into a device.
type Blocked struct {
	Patch  string
	Name   patch.Name
	Device string
	// Reason says why.
	Reason BlockedReason
}

// A BlockedReason says why a value is not written into slices.
type BlockedReason string

const (
	// BelowPolicy: a capacity that is less than its request policy hands out, which API
	// servers refuse.
	BelowPolicy BlockedReason = "BelowPolicy"
	// NoLists: a list, which API servers drop or refuse unless a feature gate that is off by default is
	// on.
	NoLists BlockedReason = "NoLists"
)

// Merge returns what is to be stored, given what patches make of the slice of the DriverWrite, nil
// for nothing. Patches never keep a driver from publishing: what would break a limit, or is
// not acceptable, is left out. acceptable may be nil.
func (d *DriverWrite) Merge(result *patch.Result, acceptable func(*resourceapi.ResourceSlice) error) Merged {
	if result == nil || result.Slice == result.Published {
		return d.store(d.Slice, nil)
	}
	storable := result.Storable()
	merged := d.storeOrPublish(storable.Slice, winners(&storable, d.Slice.Spec.Driver), acceptable)
	if merged.Refused == nil {
		merged.Blocked = blocked(&storable)
	}
	return merged
}

// storeOrPublish makes what is to be stored of a slice with values of patches, or what the driver says
// if that is refused.
func (d *DriverWrite) storeOrPublish(slice *resourceapi.ResourceSlice, winner func(device int, k Key) string, acceptable func(*resourceapi.ResourceSlice) error) Merged {
	var refused error
	if acceptable != nil {
		refused = acceptable(slice)
	}
	if refused == nil {
		merged := d.store(slice, winner)
		if merged.Refused == nil {
			return merged
		}
		refused = merged.Refused
	}
	merged := d.store(d.Slice, nil)
	merged.Refused = refused
	return merged
}

// Keep returns what is to be stored while it is not known which patches there are: what
// was in force stays so, as far as it is acceptable. acceptable may be nil.
func (d *DriverWrite) Keep(acceptable func(*resourceapi.ResourceSlice) error) Merged {
	slice := *d.Slice
	slice.Spec.Devices = slices.Clone(slice.Spec.Devices)
	patches := map[string]map[Key]string{}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		own := false
		for _, l := range slices.Backward(d.sources) { // the first one counts most
			for k, e := range l[device.Name].Entries {
				if !e.InForce() {
					continue
				}
				if !own {
					own = true
					device.Attributes, device.Capacity = maps.Clone(device.Attributes), maps.Clone(device.Capacity)
					patches[device.Name] = map[Key]string{}
				}
				put(device, k, e.Written)
				patches[device.Name][k] = e.Patch
			}
		}
	}
	if len(patches) == 0 {
		return d.store(d.Slice, nil)
	}
	return d.storeOrPublish(&slice, func(device int, k Key) string { return patches[slice.Spec.Devices[device].Name][k] }, acceptable)
}

// blocked returns what a storable result leaves out.
func blocked(storable *patch.Result) (all []Blocked) {
	for i := range storable.Published.Spec.Devices {
		for key := range storable.Device(i) {
			if !key.LeftOut {
				continue
			}
			reason := NoLists
			if key.PolicyViolated {
				reason = BelowPolicy
			}
			all = append(all, Blocked{key.Winner.Object.Name, key.Name, storable.Published.Spec.Devices[i].Name, reason})
		}
	}
	return all
}

// winners returns a function that names the patch that decides.
func winners(result *patch.Result, driver string) func(int, Key) string {
	last, names := -1, map[patch.Name]string{}
	return func(device int, k Key) string {
		if device != last {
			last = device
			clear(names)
			for key := range result.Device(device) {
				names[key.Name] = key.Winner.Object.Name
			}
		}
		return names[patch.Name{Qualified: k.qualified(driver), Capacity: k.Capacity}]
	}
}

// store makes what is to be stored of a slice and what differs in it from what the driver
// says.
func (d *DriverWrite) store(slice *resourceapi.ResourceSlice, winner func(device int, k Key) string) Merged {
	originals := Originals{}
	for i := range slice.Spec.Devices {
		published, written := &d.Slice.Spec.Devices[i], &slice.Spec.Devices[i]
		if published.Name == whole {
			continue // the API server refuses it
		}
		before := d.left[published.Name].Entries
		if slice != d.Slice {
			for _, k := range differing(published, written) {
				originals.add(published.Name, k, before[k].next(valueOf(published, k), valueOf(written, k), winner(i, k)))
			}
		}
		for k, e := range before {
			if _, differs := originals[published.Name].Entries[k]; differs {
				continue
			}
			if e = e.next(e.Published, Value{}, ""); len(e.Previous) > 0 {
				originals.add(published.Name, k, e)
			}
		}
		if said, has := d.next(published, originals[published.Name].Entries); has {
			originals[published.Name] = said
		}
	}
	if len(originals) > 0 {
		originals[whole] = Device{View: viewOfAll(d.Slice)}
	}
	return d.annotate(slice, originals)
}

// next returns what the record says of a device after a write.
func (d *DriverWrite) next(published *resourceapi.Device, entries map[Key]Entry) (Device, bool) {
	if len(entries) > 0 {
		return Device{View: viewOf(published), Entries: entries}, true
	}
	before, _ := d.recorded(published.Name)
	if before.counts(d.write.Now) {
		before.Until = d.write.Now.Add(GracePeriod).Unix()
	}
	return Device{View: viewOf(published), Until: before.Until}, before.Until != 0 && before.Until > d.write.Now.Unix()
}

// next returns the entry after a write: patch is empty for none.
func (e Entry) next(published, written Value, patch string) Entry {
	next := Entry{Published: published, Written: written, Patch: patch, Previous: e.Previous}
	if e.InForce() && (patch == "" || !e.Written.Equal(written)) {
		next.Previous = append(slices.Clone(next.Previous), PreviousValue{Value: e.Written})
	}
	next.Previous = slices.DeleteFunc(slices.Clone(next.Previous), func(f PreviousValue) bool {
		return f.Value.Equal(published) || next.InForce() && f.Value.Equal(written)
	})
	if n := len(next.Previous); n > maxPrevious {
		next.Previous = next.Previous[n-maxPrevious:]
	}
	if len(next.Previous) == 0 {
		next.Previous = nil
	}
	return next
}

// annotate writes the record into the annotation of a slice.
func (d *DriverWrite) annotate(slice *resourceapi.ResourceSlice, originals Originals) Merged {
	text, err := d.encode(originals)
	size := len(Annotation) + len(text)
	for name, value := range slice.Annotations {
		if name != Annotation {
			size += len(name) + len(value)
		}
	}
	if err == nil && text != "" && size > annotationsLimit {
		err = fmt.Errorf("the annotations of ResourceSlice %s would have %d bytes with what the driver said before, of at most %d: let patches select fewer of its devices", cmp.Or(slice.Name, slice.GenerateName), size, annotationsLimit)
	}
	if err != nil {
		text, originals = "", nil
	}
	merged := Merged{Slice: slice, Originals: originals, Refused: err}
	if slice.Annotations[Annotation] == text {
		return merged
	}
	merged.Slice = With(slice, text)
	return merged
}

// With returns a copy of a slice that has the text of a record, or none if that is empty.
func With(slice *resourceapi.ResourceSlice, text string) *resourceapi.ResourceSlice {
	annotated := *slice
	annotated.Annotations = maps.Clone(slice.Annotations)
	if annotated.Annotations == nil {
		annotated.Annotations = map[string]string{}
	}
	if annotated.Annotations[Annotation] = text; text == "" {
		delete(annotated.Annotations, Annotation)
	}
	return &annotated
}

// encode returns the text of before if the record has the same content.
func (d *DriverWrite) encode(originals Originals) (string, error) {
	if d.text != "" && originals.Equal(d.sources[0]) {
		return d.text, nil
	}
	return originals.Encode()
}
