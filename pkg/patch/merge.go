package patch

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Apply applies patches to a slice. It is Merge of what they match.
func Apply(slice *resourceapi.ResourceSlice, patches []*Patch) Result {
	return NewEvaluation(slice).Apply(patches)
}

// Apply applies patches to the slice of the evaluation. Of that it keeps nothing but what
// expressions said.
func (e *Evaluation) Apply(patches []*Patch) Result {
	var matches []Match
	for _, p := range patches {
		if m := p.Match(e); m.Devices > 0 || m.Failures.Devices > 0 {
			matches = append(matches, m)
		}
	}
	e.views = nil // they need more memory than the slice
	return Merge(e.slice, matches)
}

// Merge applies to a slice the patches that match devices of it. The order of matches
// does not count. Nothing that the slice or the patches hold is changed, and the result
// shares with them what it can: it must not be changed either.
func Merge(slice *resourceapi.ResourceSlice, matches []Match) Result {
	r := Result{Slice: slice, Published: slice}
	for _, m := range matches {
		if m.Devices > 0 || m.Failures.Devices > 0 {
			r.matches = append(r.matches, m)
		}
	}
	slices.SortStableFunc(r.matches, func(a, b Match) int { return Compare(a.Patch, b.Patch) })
	plans := plans{matches: r.matches}
	w := writer{driver: resourceapi.QualifiedName(slice.Spec.Driver), crowded: len(slice.Spec.Devices) > resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures}
	var last string
	for i := range slice.Spec.Devices {
		plan := plans.of(i)
		if plan == nil {
			continue
		}
		if r.devices == nil {
			r.devices = make([]outcome, len(slice.Spec.Devices))
		}
		w.apply(plan, &slice.Spec.Devices[i])
		if last != string(w.effects) {
			last = string(w.effects)
		}
		r.devices[i] = outcome{plan, last}
		if w.changed {
			r.own().Spec.Devices[i] = w.device
		}
	}
	return r
}

// own makes the slice of the result a copy, for the first device that changes.
func (r *Result) own() *resourceapi.ResourceSlice {
	if r.Slice == r.Published {
		merged := *r.Published
		merged.Spec.Devices = slices.Clone(r.Published.Spec.Devices)
		r.Slice = &merged
	}
	return r.Slice
}

// A plan is what a set of patches does to a device, whichever it is.
type plan struct {
	entries []entry
}

// An entry says who wins one attribute or capacity.
type entry struct {
	*change
	winner     *Patch
	suppressed []*Patch
}

// plans makes one plan for each set of patches that apply to a device.
type plans struct {
	matches []Match
	made    map[string]*plan
	set     []byte
}

// of returns the plan for a device, nil if no patch applies to it.
func (p *plans) of(device int) *plan {
	p.set = p.set[:0]
	for i, m := range p.matches {
		if i%8 == 0 {
			p.set = append(p.set, 0)
		}
		if m.Has(device) {
			p.set[i/8] |= 1 << (i % 8)
		}
	}
	if !slices.ContainsFunc(p.set, func(b byte) bool { return b != 0 }) {
		return nil
	}
	if made, known := p.made[string(p.set)]; known {
		return made
	}
	if p.made == nil {
		p.made = map[string]*plan{}
	}
	made := p.make(device)
	p.made[string(p.set)] = made
	return made
}

// make decides every contest. The entries are in the order of precedence of their
// winners.
func (p *plans) make(device int) *plan {
	made := &plan{}
	at := map[Name]int{}
	for _, m := range p.matches {
		if !m.Has(device) {
			continue
		}
		for i := range m.Patch.changes {
			c := &m.Patch.changes[i]
			if won, known := at[c.key]; known {
				made.entries[won].suppressed = append(made.entries[won].suppressed, m.Patch)
				continue
			}
			at[c.key] = len(made.entries)
			made.entries = append(made.entries, entry{change: c, winner: m.Patch})
		}
	}
	return made
}

// A writer applies a plan to one device after the other.
type writer struct {
	driver resourceapi.QualifiedName
	// crowded says that the slice has more devices than one may have in which a device
	// has a list.
	crowded bool

	device  resourceapi.Device
	changed bool
	// ownAttributes and ownCapacity say that the map of device is a copy already.
	ownAttributes, ownCapacity bool
	effects                    []byte
}

// apply makes w.device, and w.effects with an Effect for each entry. First comes what
// needs no room, then as much as there is room for, in the order of precedence.
func (w *writer) apply(p *plan, published *resourceapi.Device) {
	w.device, w.changed, w.ownAttributes, w.ownCapacity = *published, false, false, false
	w.effects = append(w.effects[:0], make([]byte, len(p.entries))...)
	postponed := false
	for i := range p.entries {
		effect, done := w.replace(&p.entries[i])
		w.effects[i] = byte(effect)
		if !done {
			w.effects[i], postponed = byte(pending), true
		}
	}
	if !postponed {
		return
	}
	room := w.room()
	for i := range p.entries {
		if Effect(w.effects[i]) == pending {
			w.effects[i] = byte(w.grow(&p.entries[i], &room))
		}
	}
}

// room is how many names and values a device can still take.
type room struct{ names, values int }

func (w *writer) room() room {
	r := room{
		names:  resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice - len(w.device.Attributes) - len(w.device.Capacity),
		values: resourceapi.ResourceSliceMaxAttributeValuesPerDevice,
	}
	for _, a := range w.device.Attributes {
		r.values -= values(&a)
	}
	return r
}

// attributes returns the map of attributes to write to.
func (w *writer) attributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	if !w.ownAttributes {
		w.device.Attributes = clone(w.device.Attributes)
		w.ownAttributes, w.changed = true, true
	}
	return w.device.Attributes
}

// capacity returns the map of capacities to write to.
func (w *writer) capacity() map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	if !w.ownCapacity {
		w.device.Capacity = clone(w.device.Capacity)
		w.ownCapacity, w.changed = true, true
	}
	return w.device.Capacity
}

func clone[V any](of map[resourceapi.QualifiedName]V) map[resourceapi.QualifiedName]V {
	if of == nil {
		return map[resourceapi.QualifiedName]V{}
	}
	return maps.Clone(of)
}
