package record_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// A world is an API server with one slice, a webhook, patches, and a driver that takes over
// what it gets in answer to a write, as those do that publish with upstream's code.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	patches patch.Set
	number  int
	down    bool // the webhook
	known   record.Originals

	stored *resourceapi.ResourceSlice
	// truth is what the driver has found, memory what it takes for that.
	truth, memory []resourceapi.Device
	history       []string
}

func (w *world) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// write is a write as the API server does it; the webhook is called twice at times.
func (w *world) write(incoming, old *resourceapi.ResourceSlice) {
	if !w.down {
		for range 1 + w.random.IntN(2) {
			d, err := record.Read(record.Write{Incoming: incoming, Old: old, Known: w.known, Now: w.now})
			if err != nil {
				w.t.Fatal(err)
			}
			merged := d.Merge(w.patches.Apply(d.Slice), nil)
			if merged.Refused != nil {
				w.t.Fatal(merged.Refused)
			}
			incoming = merged.Slice
		}
	}
	w.stored = roundTrip(w.t, incoming)
	if originals, err := record.OriginalsOf(w.stored); err != nil {
		w.t.Fatal(err)
	} else if originals != nil {
		w.known = originals
	}
}

func roundTrip(t testing.TB, slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	t.Helper()
	data, err := json.Marshal(slice)
	if err != nil {
		t.Fatal(err)
	}
	out := &resourceapi.ResourceSlice{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// sync is what the driver does when the slice is not what it wants.
func (w *world) sync() {
	if w.stored != nil && equality.Semantic.DeepEqual(w.stored.Spec.Devices, w.memory) {
		return
	}
	if w.stored == nil {
		w.write(&resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", w.random.IntN(1e6))},
			Spec: resourceapi.ResourceSliceSpec{Driver: "d.example.com", Devices: w.memory}}, nil)
	} else {
		next := w.stored.DeepCopy()
		next.Spec.Devices = w.memory
		w.write(next, w.stored)
	}
	w.memory = w.stored.DeepCopy().Spec.Devices
}

func (w *world) fresh() string {
	w.number++
	return fmt.Sprint("driver-", w.number)
}

func (w *world) device(name string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"model":               {StringValue: ptr.To(w.fresh())},
		"other.example.com/b": {StringValue: ptr.To(w.fresh())},
		"gone":                {StringValue: ptr.To(w.fresh())},
		"serial":              {StringValue: ptr.To(w.fresh())},
	}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *resource.NewQuantity(w.random.Int64N(1e6), resource.BinarySI)}}}
	if w.random.IntN(3) == 0 {
		delete(d.Attributes, "model")
	}
	return d
}

// find lets the driver find other devices, or other values of those that it has: some stay,
// some go, and some are what a patch says. At least one value is another one.
func (w *world) find() {
	if len(w.truth) == 0 || w.random.IntN(3) == 0 {
		w.truth = nil
		for i := range 1 + w.random.IntN(3) {
			w.truth = append(w.truth, w.device(fmt.Sprint("dev-", i)))
		}
		return
	}
	w.truth = clone(w.truth)
	for i := range w.truth {
		attributes := w.truth[i].Attributes
		for _, name := range []resourceapi.QualifiedName{"model", "other.example.com/b", "new.example.com/c", "gone"} {
			switch w.random.IntN(5) {
			case 0:
				delete(attributes, name)
			case 1:
				attributes[name] = resourceapi.DeviceAttribute{StringValue: ptr.To(w.fresh())}
			case 2:
				attributes[name] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint("patch-", w.random.IntN(3)))}
			}
		}
	}
	other := w.random.IntN(len(w.truth))
	for i := range w.truth {
		// Of a slice without a record, which the driver has recreated, each device counts by itself.
		if i == other || w.stored == nil || w.stored.Annotations[record.Annotation] == "" {
			w.truth[i].Attributes["serial"] = resourceapi.DeviceAttribute{StringValue: ptr.To(w.fresh())}
		}
	}
}

func (w *world) changePatches() {
	name := fmt.Sprint("patch-", w.random.IntN(3))
	if w.random.IntN(3) == 0 {
		w.patches.Delete(name)
		return
	}
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.Devices.Priority = ptr.To(w.random.Int64N(3))
	if w.random.IntN(2) == 0 {
		object.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Device: ptr.To(fmt.Sprint("dev-", w.random.IntN(3)))}
	}
	// few values, so that a patch comes back to one that it had before
	value := func() v1alpha1.NullableDeviceAttribute {
		return v1alpha1.NullableDeviceAttribute{DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint("patch-", w.random.IntN(3)))}}
	}
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{"d.example.com/model": value()}
	if w.random.IntN(2) == 0 {
		object.Spec.Devices.Attributes["other.example.com/b"] = value()
	}
	if w.random.IntN(2) == 0 {
		object.Spec.Devices.Attributes["new.example.com/c"] = value()
	}
	if w.random.IntN(2) == 0 {
		object.Spec.Devices.Attributes["d.example.com/gone"] = v1alpha1.NullableDeviceAttribute{NullValue: &v1alpha1.NullValue{}}
	}
	if w.random.IntN(2) == 0 {
		object.Spec.Devices.Capacity = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{"d.example.com/memory": {Value: *resource.NewQuantity(-1-w.random.Int64N(3), resource.BinarySI)}}
	}
	w.patches.Put(object, nil)
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.random.IntN(60)) * time.Second)
	switch w.random.IntN(12) {
	case 0, 1:
		w.find()
		w.memory = clone(w.truth)
		w.sync()
		w.log("driver publishes")
	case 2:
		w.memory = clone(w.truth)
		w.sync()
		w.log("driver restarts")
	case 3:
		w.stored = nil
		w.sync()
		w.log("slice deleted by hand")
	case 4:
		w.down = !w.down
		w.log("webhook down: %t", w.down)
	case 5, 6, 7:
		w.changePatches()
		w.write(w.stored, w.stored)
		w.log("patches changed, touch")
	case 8:
		w.write(w.stored, w.stored)
		w.log("touch")
	default:
		w.sync()
		w.log("driver syncs")
	}
}

func clone(devices []resourceapi.Device) []resourceapi.Device {
	return (&resourceapi.ResourceSliceSpec{Devices: devices}).DeepCopy().Devices
}

// check: the slice is what the patches make of what the driver has found, and readers see
// that.
func (w *world) check() {
	w.t.Helper()
	if w.down {
		return
	}
	w.write(w.stored, w.stored) // whatever happened while the webhook was down
	truth := w.stored.DeepCopy()
	truth.Annotations = nil
	truth.Spec.Devices = w.truth
	want := truth
	if result := w.patches.Apply(truth); result != nil {
		want = result.Slice
	}
	got := w.stored.DeepCopy()
	if diff := cmp.Diff(tidy(want.Spec.Devices), tidy(got.Spec.Devices)); diff != "" {
		originals, _ := record.OriginalsOf(w.stored)
		w.t.Fatalf("after %q: -want +stored\n%s\nledger %+v", w.history, diff, originals)
	}
	published, err := record.Published(w.stored, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(tidy(w.truth), tidy(published.Spec.Devices)); diff != "" {
		w.t.Fatalf("after %q: -truth +published\n%s", w.history, diff)
	}
	before := w.stored.ResourceVersion + w.stored.Annotations[record.Annotation]
	w.write(w.stored, w.stored)
	if w.stored.Annotations[record.Annotation] != before {
		w.t.Fatalf("after %q: a touch that changes nothing changes the originals", w.history)
	}
}

func tidy(devices []resourceapi.Device) []resourceapi.Device {
	devices = clone(devices)
	for i := range devices {
		if len(devices[i].Attributes) == 0 {
			devices[i].Attributes = nil
		}
	}
	return devices
}

// TestHistories: whatever happens, in any order, the slice ends up as patches make it of
// what the driver has found; and without patches it is that. With DRA_STEWARD_CAMPAIGN, a
// duration, it goes on with further seeds until the time is over.
func TestHistories(t *testing.T) {
	var campaign time.Duration
	if length := os.Getenv("DRA_STEWARD_CAMPAIGN"); length != "" {
		var err error
		if campaign, err = time.ParseDuration(length); err != nil {
			t.Fatal(err)
		}
	}
	histories, begin := 200, time.Now()
	if testing.Short() {
		histories = 20
	}
	for seed := 0; seed < histories || time.Since(begin) < campaign; seed++ {
		w := &world{t: t, random: rand.New(rand.NewPCG(uint64(seed), 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		w.find()
		w.memory = clone(w.truth)
		w.sync()
		for range 40 {
			w.step()
			w.check()
		}
		w.down = false
		for w.patches.Len() > 0 {
			for p := range w.patches.All() {
				w.patches.Delete(p.Object.Name)
				break
			}
		}
		w.write(w.stored, w.stored)
		w.sync()
		w.check()
		if diff := cmp.Diff(tidy(w.truth), tidy(w.stored.Spec.Devices)); diff != "" {
			t.Fatalf("seed %d: a value stayed: %s", seed, diff)
		}
		w.memory = clone(w.truth)
		w.now = w.now.Add(time.Hour)
		w.sync()
		w.write(w.stored, w.stored)
		originals, err := record.OriginalsOf(w.stored)
		if n := originals.Count(); err != nil || n.InForce > 0 || n.Settled > 0 {
			t.Fatalf("seed %d: left in the originals: %+v, %v", seed, n, err)
		}
	}
}
