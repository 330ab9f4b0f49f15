package mutate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/pkg/mutate"
)

// rounds is how many random objects a property is tried on.
const rounds = 1000

// randomSlice has few names, keys and times, so that taints meet their like: twice in
// a device, in another device, with another effect.
func randomSlice(r *rand.Rand) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{}
	for range r.IntN(4) {
		device := resourceapi.Device{Name: pick(r, "gpu-0", "gpu-1", "")}
		for range r.IntN(4) {
			device.Taints = append(device.Taints, resourceapi.DeviceTaint{
				Key:       pick(r, "example.com/a", "example.com/b"),
				Value:     pick(r, "", "x"),
				Effect:    pick(r, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute),
				TimeAdded: randomTime(r),
			})
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

// randomTime is absent, near the write or far from it, in some zone.
func randomTime(r *rand.Rand) *metav1.Time {
	if r.IntN(3) == 0 {
		return nil
	}
	offset := pick(r, -time.Hour, -6*time.Second, -5*time.Second, -time.Second, 0, time.Second, 4*time.Second, 6*time.Second, time.Hour)
	zone := time.FixedZone("somewhere", pick(r, -5, 0, 5)*3600)
	return &metav1.Time{Time: writeTime.Truncate(time.Second).Add(offset).In(zone)}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// fillSlice applies the defaults to a copy of object and returns it with the result.
func fillSlice(t testing.TB, object, old *resourceapi.ResourceSlice, settings mutate.Settings) (*resourceapi.ResourceSlice, mutate.Result) {
	t.Helper()
	after := object.DeepCopy()
	result, err := mutate.ResourceSlice().Apply(mutate.Write[resourceapi.ResourceSlice]{
		Object: after, Old: func() (*resourceapi.ResourceSlice, error) { return old, nil }, Now: writeTime,
	}, settings)
	if err != nil {
		t.Fatal(err)
	}
	return after, result
}

// everySlice runs property on random updates and creations, each time with the number
// that makes it again.
func everySlice(t *testing.T, property func(t *testing.T, object, old *resourceapi.ResourceSlice)) {
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 0))
		object, old := randomSlice(r), randomSlice(r)
		switch r.IntN(3) {
		case 0:
			old = nil
		case 1: // the same slice again, as a driver publishes it
			object = old.DeepCopy()
			for _, taint := range taintsOf(object) {
				if r.IntN(2) == 0 {
					taint.TimeAdded = randomTime(r)
				}
			}
		}
		before := old.DeepCopy()
		property(t, object, old)
		if diff := cmp.Diff(before, old); diff != "" {
			t.Errorf("the stored object was changed: -before +after\n%s", diff)
		}
		if t.Failed() {
			t.Fatalf("seed %d:\nold %s\nnew %s", seed, text(old), text(object))
		}
	}
}

func taintsOf(slice *resourceapi.ResourceSlice) (taints []*resourceapi.DeviceTaint) {
	for i := range slice.Spec.Devices {
		for j := range slice.Spec.Devices[i].Taints {
			taints = append(taints, &slice.Spec.Devices[i].Taints[j])
		}
	}
	return taints
}

func text(object any) string {
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestTwiceIsOnce(t *testing.T) {
	everySlice(t, func(t *testing.T, object, old *resourceapi.ResourceSlice) {
		once, _ := fillSlice(t, object, old, mutate.Settings{})
		if twice, result := fillSlice(t, once, old, mutate.Settings{}); len(result.Changes) > 0 {
			t.Errorf("changed again: %v", cmp.Diff(once, twice))
		}
	})
}

// TestChangesAreThePatch: what the changes make of the JSON is what was done to the
// object.
func TestChangesAreThePatch(t *testing.T) {
	everySlice(t, func(t *testing.T, object, old *resourceapi.ResourceSlice) {
		after, result := fillSlice(t, object, old, mutate.Settings{})
		var fromPatch resourceapi.ResourceSlice
		if err := json.Unmarshal(patched(t, []byte(text(object)), result), &fromPatch); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text(after), text(fromPatch)); diff != "" {
			t.Errorf("-object +patch:\n%s", diff)
		}
	})
}

// TestOnlyTimesChange: nothing but times, and of those only what the documentation
// allows: a missing one, or one near the write of a taint that was there.
func TestOnlyTimesChange(t *testing.T) {
	everySlice(t, func(t *testing.T, object, old *resourceapi.ResourceSlice) {
		after, _ := fillSlice(t, object, old, mutate.Settings{})
		for i := range object.Spec.Devices {
			for j, was := range object.Spec.Devices[i].Taints {
				is := after.Spec.Devices[i].Taints[j]
				checkTime(t, object.Spec.Devices[i].Name, was, is, old)
			}
		}
		untimed, before := after.DeepCopy(), object.DeepCopy()
		for _, slice := range []*resourceapi.ResourceSlice{untimed, before} {
			for _, taint := range taintsOf(slice) {
				taint.TimeAdded = nil
			}
		}
		if diff := cmp.Diff(before, untimed); diff != "" {
			t.Errorf("something else changed:\n%s", diff)
		}
	})
}

func checkTime(t *testing.T, device string, was, is resourceapi.DeviceTaint, old *resourceapi.ResourceSlice) {
	t.Helper()
	now := writeTime.Truncate(time.Second)
	stored := storedTimes(device, was, old)
	kept := func() bool {
		for _, time := range stored {
			if time.Equal(is.TimeAdded.Time) {
				return true
			}
		}
		return false
	}
	switch {
	case is.TimeAdded == nil:
		t.Errorf("%s %v: no time", device, is)
	case was.TimeAdded == nil && !is.TimeAdded.Time.Equal(now) && !kept():
		t.Errorf("%s %v: a time from nowhere", device, is)
	case was.TimeAdded == nil || was.TimeAdded.Time.Equal(is.TimeAdded.Time):
	case len(stored) == 0:
		t.Errorf("%s %v: was %v, and no such taint is stored", device, is, was.TimeAdded)
	case !kept():
		t.Errorf("%s %v: is not among the stored times %v", device, is, stored)
	case writeTime.Sub(was.TimeAdded.Time).Abs() > 5*time.Second:
		t.Errorf("%s %v: was %v, outside of the window", device, is, was.TimeAdded)
	case !is.TimeAdded.Time.Before(was.TimeAdded.Time):
		t.Errorf("%s %v: was %v, which is earlier", device, is, was.TimeAdded)
	}
}

// storedTimes are the times of the same taint: device, key, value and effect.
func storedTimes(device string, taint resourceapi.DeviceTaint, old *resourceapi.ResourceSlice) (times []time.Time) {
	if old == nil {
		return nil
	}
	for i := range old.Spec.Devices {
		for _, stored := range old.Spec.Devices[i].Taints {
			if old.Spec.Devices[i].Name == device && stored.TimeAdded != nil &&
				stored.Key == taint.Key && stored.Value == taint.Value && stored.Effect == taint.Effect {
				times = append(times, stored.TimeAdded.Time)
			}
		}
	}
	return times
}

// TestNoWindowNoRestoring: 0s switches the restoring off altogether.
func TestNoWindowNoRestoring(t *testing.T) {
	everySlice(t, func(t *testing.T, object, old *resourceapi.ResourceSlice) {
		_, result := fillSlice(t, object, old, mutate.Settings{TimeAddedWindow: &metav1.Duration{}})
		for _, change := range result.Changes {
			if change.Default != "taint-time-set" {
				t.Errorf("%v", change)
			}
		}
	})
}

func TestWindow(t *testing.T) {
	stored := at(-time.Hour)
	window := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for _, test := range []struct {
		name   string
		window *metav1.Duration
		added  *metav1.Time
		want   *metav1.Time
	}{
		{"exactly 5 s before", nil, exactly(-5 * time.Second), stored},
		{"a moment earlier", nil, exactly(-5*time.Second - 1), exactly(-5*time.Second - 1)},
		{"exactly 5 s after", nil, exactly(5 * time.Second), stored},
		{"a moment later", nil, exactly(5*time.Second + 1), exactly(5*time.Second + 1)},
		{"missing", nil, nil, stored},
		{"unchanged", nil, stored, stored},
		{"older than stored", nil, at(-2 * time.Hour), at(-2 * time.Hour)},
		{"window of a minute", window(time.Minute), exactly(-time.Minute), stored},
		{"outside of a minute", window(time.Minute), exactly(-time.Minute - 1), exactly(-time.Minute - 1)},
		{"off and now", window(0), at(0), at(0)},
		{"off and missing", window(0), nil, at(0)},
		{"another zone", nil, &metav1.Time{Time: stored.In(time.FixedZone("UTC+5:45", 20700))}, stored},
	} {
		t.Run(test.name, func(t *testing.T) {
			after, _ := fillSlice(t, oneTaint(test.added), oneTaint(stored), mutate.Settings{TimeAddedWindow: test.window})
			if got := after.Spec.Devices[0].Taints[0].TimeAdded; !got.Time.Equal(test.want.Time) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// at is a time as the API has it, in whole seconds from the write; exactly is one
// that only this test can make.
func at(offset time.Duration) *metav1.Time {
	return &metav1.Time{Time: writeTime.Truncate(time.Second).Add(offset)}
}

func exactly(offset time.Duration) *metav1.Time { return &metav1.Time{Time: writeTime.Add(offset)} }

func oneTaint(added *metav1.Time) *resourceapi.ResourceSlice {
	return slice(resourceapi.Device{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "example.com/a", Effect: "NoExecute", TimeAdded: added}}})
}

func slice(devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Devices: devices}}
}

// TestEffectChanged: the time of a taint with another effect is never taken over, and
// an author who takes it over himself is warned.
func TestEffectChanged(t *testing.T) {
	for name, want := range map[string]string{
		"gpu-0": "spec.devices[gpu-0].taints[0].timeAdded",
		"7":     "spec.devices[name=7].taints[0].timeAdded",
		"":      "spec.devices[0].taints[0].timeAdded",
	} {
		old, object := oneTaint(at(-time.Hour)), oneTaint(at(-time.Hour))
		old.Spec.Devices[0].Name, object.Spec.Devices[0].Name = name, name
		old.Spec.Devices[0].Taints[0].Effect = "NoSchedule"
		_, result := fillSlice(t, object, old, mutate.Settings{})
		if len(result.Changes) > 0 || len(result.Warnings) != 1 || result.Warnings[0].Path != want {
			t.Errorf("device %q: %+v, want a warning at %s", name, result, want)
		}
		object.Spec.Devices[0].Taints[0].TimeAdded = nil
		after, result := fillSlice(t, object, old, mutate.Settings{})
		if got := after.Spec.Devices[0].Taints[0].TimeAdded; !got.Time.Equal(at(0).Time) || len(result.Warnings) > 0 {
			t.Errorf("device %q without a time: got %v, %v", name, got, result.Warnings)
		}
	}
}

// TestDuplicates: of equal taints each gets the time of one that is stored, in their
// order, and one too many is new.
func TestDuplicates(t *testing.T) {
	twin := func(times ...*metav1.Time) *resourceapi.ResourceSlice {
		device := resourceapi.Device{Name: "gpu-0"}
		for _, added := range times {
			device.Taints = append(device.Taints, resourceapi.DeviceTaint{Key: "example.com/a", Effect: "NoExecute", TimeAdded: added})
		}
		return slice(device)
	}
	after, _ := fillSlice(t, twin(nil, at(0), nil), twin(at(-time.Hour), at(-time.Minute)), mutate.Settings{})
	for i, want := range []*metav1.Time{at(-time.Hour), at(-time.Minute), at(0)} {
		if got := after.Spec.Devices[0].Taints[i].TimeAdded; !got.Time.Equal(want.Time) {
			t.Errorf("taint %d: %v, want %v", i, got, want)
		}
	}
}

// TestTooLongLists: what the rules refuse is not worked on.
func TestTooLongLists(t *testing.T) {
	tainted := oneTaint(nil).Spec.Devices[0]
	var taints []resourceapi.DeviceTaint
	for range resourceapi.DeviceTaintsMaxLength + 1 {
		taints = append(taints, tainted.Taints...)
	}
	var devices []resourceapi.Device
	for i := range resourceapi.ResourceSliceMaxDevices + 1 {
		devices = append(devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i), Taints: tainted.Taints})
	}
	for name, object := range map[string]*resourceapi.ResourceSlice{
		"taints": slice(resourceapi.Device{Taints: taints}), "devices": slice(devices...),
	} {
		if _, result := fillSlice(t, object, nil, mutate.Settings{}); len(result.Changes) > 0 {
			t.Errorf("too many %s: %d changes", name, len(result.Changes))
		}
	}
}

func TestSettings(t *testing.T) {
	for _, test := range []struct {
		settings mutate.Settings
		valid    bool
	}{
		{mutate.Settings{}, true},
		{mutate.Settings{Finalizer: "create", TimeAddedWindow: &metav1.Duration{}}, true},
		{mutate.Settings{Finalizer: "off", TimeAddedWindow: &metav1.Duration{Duration: time.Minute}}, true},
		{mutate.Settings{TimeAddedWindow: &metav1.Duration{Duration: time.Minute + 1}}, false},
		{mutate.Settings{TimeAddedWindow: &metav1.Duration{Duration: -1}}, false},
		{mutate.Settings{Finalizer: "Create"}, false},
	} {
		if err := test.settings.Validate(); (err == nil) != test.valid {
			t.Errorf("%+v: %v", test.settings, err)
		}
	}
}
