package slicemerge

import (
	"context"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// Confirmed returns the slice of a write, without its record where nothing confirms that: whoever
// may write a slice can write a record, also one about the devices of another driver. The record of
// the stored slice is confirmed, since it was checked when it was written. Another one is
// confirmed as far as that or what is known of the pool says the same, or as the patches would write
// just these values.
func (m *Merger) Confirmed(ctx context.Context, incoming, old *resourceapi.ResourceSlice, now time.Time) *resourceapi.ResourceSlice {
	text := incoming.Annotations[record.Annotation]
	if old != nil && PoolOf(old) != PoolOf(incoming) {
		old = nil // its record is about other devices
	}
	if text == "" || old != nil && old.Annotations[record.Annotation] == text {
		return incoming
	}
	said, err := record.OriginalsOf(incoming)
	if err != nil {
		return incoming // such a record is not read
	}
	sources := []record.Originals{m.pools.Of(PoolOf(incoming))}
	if old != nil {
		if before, err := record.OriginalsOf(old); err == nil {
			sources = append(sources, before)
		}
	}
	repeats := false
	if m.mode == Materialize && m.patches.Known() {
		merged := m.Merge(ctx, incoming, old, now, func(_, _ *resourceapi.ResourceSlice) error { return nil })
		repeats = record.SameDevices(incoming, merged.Slice) && said.SameInForce(merged.Originals)
	}
	for device, d := range said {
		for key, entry := range d.Entries {
			var known []record.Entry
			for _, source := range sources {
				if e, has := source[device].Entries[key]; has {
					known = append(known, e)
				}
			}
			if !confirms(entry, known, repeats) {
				return record.With(incoming, "")
			}
		}
	}
	return incoming
}

// confirms reports whether an entry follows from what is known of its value. repeats is true if the
// patches write the values that are in force.
func confirms(entry record.Entry, known []record.Entry, repeats bool) bool {
	for _, previous := range entry.Previous {
		if !slices.ContainsFunc(known, func(e record.Entry) bool {
			return e.Written.Equal(previous.Value) || slices.ContainsFunc(e.Previous, func(p record.PreviousValue) bool { return p.Value.Equal(previous.Value) })
		}) {
			return false
		}
	}
	return !entry.InForce() || repeats || slices.ContainsFunc(known, func(e record.Entry) bool {
		return e.Published.Equal(entry.Published) && e.Written.Equal(entry.Written)
	})
}
