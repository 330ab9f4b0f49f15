package record

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/patch"
)

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
	slice, blocked := d.without(result)
	var refused error
	if acceptable != nil {
		refused = acceptable(slice)
	}
	if refused == nil {
		merged := d.store(slice, winners(result, d.Slice.Spec.Driver))
		if merged.Blocked = blocked; merged.Refused == nil {
			return merged
		}
		refused = merged.Refused
	}
	merged := d.store(d.Slice, nil)
	merged.Refused = refused
	return merged
}

// Keep returns what is to be stored while it is not known which patches there are: what
// was in force stays so.
func (d *DriverWrite) Keep() Merged {
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
	return d.store(&slice, func(device int, k Key) string { return patches[slice.Spec.Devices[device].Name][k] })
}

// without removes from a result what cannot be written.
func (d *DriverWrite) without(result *patch.Result) (*resourceapi.ResourceSlice, []Blocked) {
	slice, own := result.Slice, false
	var blocked []Blocked
	for i := range d.Slice.Spec.Devices {
		mine := false
		for key := range result.Device(i) {
			k := Key{key.Spelling, key.Name.Capacity}
			reason := blockedReason(key, valueOf(&result.Slice.Spec.Devices[i], k))
			if reason == "" {
				continue
			}
			blocked = append(blocked, Blocked{key.Winner.Object.Name, key.Name, d.Slice.Spec.Devices[i].Name, reason})
			if !own {
				own = true
				copied := *result.Slice
				copied.Spec.Devices = slices.Clone(copied.Spec.Devices)
				slice = &copied
			}
			device := &slice.Spec.Devices[i]
			if !mine {
				mine = true
				device.Attributes, device.Capacity = maps.Clone(device.Attributes), maps.Clone(device.Capacity)
			}
			put(device, k, valueOf(&d.Slice.Spec.Devices[i], k))
		}
	}
	return slice, blocked
}

func blockedReason(key patch.Key, v Value) BlockedReason {
	switch {
	case key.Effect != patch.Added && key.Effect != patch.Replaced:
		return ""
	case key.PolicyViolated:
		return BelowPolicy
	case v.isList():
		return NoLists
	default:
		return ""
	}
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
		full := string(k.Name)
		if !strings.Contains(full, "/") {
			full = driver + "/" + full
		}
		return names[patch.Name{Qualified: resourceapi.FullyQualifiedName(full), Capacity: k.Capacity}]
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
			if e = e.next(e.Published, Value{}, ""); len(e.Former) > 0 {
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
	next := Entry{Published: published, Written: written, Patch: patch, Former: e.Former}
	if e.InForce() && (patch == "" || !e.Written.Equal(written)) {
		next.Former = append(slices.Clone(next.Former), FormerValue{Value: e.Written})
	}
	next.Former = slices.DeleteFunc(slices.Clone(next.Former), func(f FormerValue) bool {
		return f.Value.Equal(published) || next.InForce() && f.Value.Equal(written)
	})
	if n := len(next.Former); n > maxFormer {
		next.Former = next.Former[n-maxFormer:]
	}
	if len(next.Former) == 0 {
		next.Former = nil
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
	annotated := *slice
	annotated.Annotations = maps.Clone(slice.Annotations)
	if annotated.Annotations == nil {
		annotated.Annotations = map[string]string{}
	}
	if annotated.Annotations[Annotation] = text; text == "" {
		delete(annotated.Annotations, Annotation)
	}
	merged.Slice = &annotated
	return merged
}

// encode returns the text of before if the record has the same content.
func (d *DriverWrite) encode(originals Originals) (string, error) {
	if d.text != "" && originals.Equal(d.sources[0]) {
		return d.text, nil
	}
	return originals.Encode()
}
