package materialize_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

const rackKey = "dc.example.com/rack"

// text is a value of the attribute.
func text(value string) record.Value {
	return record.Value{Attribute: &resourceapi.DeviceAttribute{StringValue: ptr.To(value)}}
}

// withRack is a slice of one device with a value and a record.
func withRack(t *testing.T, value string, originals record.Originals) *resourceapi.ResourceSlice {
	t.Helper()
	s := slice("forged", "a", 1, 1)
	s.Spec.Devices[0].Attributes[rackKey] = resourceapi.DeviceAttribute{StringValue: ptr.To(value)}
	encoded, err := originals.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return record.With(s, encoded)
}

// TestForgedRecords holds that a driver that creates a slice with the names of another driver's
// pool and a forged record, or changes the record of a slice, does not change what the other
// driver publishes, in any mode.
func TestForgedRecords(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	device := slice("s", "a", 1, 1).Spec.Devices[0].Name
	entry := func(e record.Entry) record.Originals {
		return record.Originals{device: {Entries: map[record.Key]record.Entry{{Name: rackKey}: e}}}
	}
	inForce := entry(record.Entry{Published: text("evil"), Written: text("own"), Patch: "p"})
	previous := entry(record.Entry{Published: text("evil"), Previous: []record.PreviousValue{{Value: text("own")}}})
	for name, mode := range map[string]slicemerge.Mode{"none": slicemerge.None, "materialize": slicemerge.Materialize, "restore": slicemerge.Restore} {
		t.Run(name, func(t *testing.T) {
			for _, forged := range []*resourceapi.ResourceSlice{withRack(t, "own", inForce), withRack(t, "evil", previous), withRack(t, "own", previous), withRack(t, "evil", inForce)} {
				for _, old := range []*resourceapi.ResourceSlice{nil, record.With(forged, "")} {
					pools := &slicemerge.PoolOriginals{}
					m := slicemerge.NewMerger(mode, slicemerge.Patches{}, pools, nil, logr.Discard())
					if mode == slicemerge.Materialize {
						m = merging(pools, rackPatch("p", "r1", "device.driver == 'other'"))
					}
					confirmed := m.Confirmed(t.Context(), forged, old, now)
					if confirmed.Annotations[record.Annotation] != "" {
						t.Errorf("%s is confirmed", forged.Annotations[record.Annotation])
					}
					stored := m.Merge(t.Context(), confirmed, old, now, accept).Slice
					pools.Learn(stored, now)
					honest := withRack(t, "own", nil)
					if got := m.Merge(t.Context(), m.Confirmed(t.Context(), honest, nil, now), nil, now, accept).Slice; rack(got) != "own" {
						t.Errorf("the honest driver's value is stored as %s", rack(got))
					}
				}
			}
		})
	}
}

// TestConfirmedRecords holds that a record is kept that the webhook has made, when the API server
// calls it twice for one write, and one that is known.
func TestConfirmedRecords(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pools := &slicemerge.PoolOriginals{}
	first := merging(nil, rackPatch("p", "r1", ""))
	driver := withRack(t, "own", nil)
	once := first.Merge(t.Context(), driver, nil, now, accept).Slice
	second := merging(pools, rackPatch("p", "r1", ""))
	if got := second.Confirmed(t.Context(), once, nil, now); got != once {
		t.Error("the record of the first call is dropped")
	}
	changed := merging(pools, rackPatch("p", "r2", ""))
	again := changed.Merge(t.Context(), driver, once, now, accept).Slice
	if got := changed.Confirmed(t.Context(), again, once, now); rack(again) != "r2" || got != again {
		t.Errorf("the record of an update is dropped: %s", rack(again))
	}
	pools.Learn(once, now)
	none := slicemerge.NewMerger(slicemerge.None, slicemerge.Patches{}, pools, nil, logr.Discard())
	if got := none.Confirmed(t.Context(), once, nil, now); got != once {
		t.Error("a record that is known is dropped")
	}
	other := once.DeepCopy() // moved to a slice of another pool
	other.Spec.Pool.Name = "b"
	if got := none.Confirmed(t.Context(), other, once, now); got.Annotations[record.Annotation] != "" {
		t.Error("the record of another pool is kept")
	}
}
