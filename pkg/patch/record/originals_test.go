package record_test

import (
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
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

// full is a slice of 128 devices with as many attributes as a patch may change, text of
// the longest kind.
func full(text func() string, attributes int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com"}}
	for i := range resourceapi.ResourceSliceMaxDevices {
		d := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		for j := range attributes {
			d.Attributes[resourceapi.QualifiedName(fmt.Sprintf("attribute_%d", j))] = resourceapi.DeviceAttribute{StringValue: ptr.To(text())}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, d)
	}
	return slice
}

// replacing is a patch of so many attributes.
func replacing(attributes int) *v1alpha1.ResourceSlicePatch {
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{}
	for j := range attributes {
		object.Spec.Devices.Attributes[resourceapi.FullyQualifiedName(fmt.Sprintf("gpu.example.com/attribute_%d", j))] =
			v1alpha1.NullableDeviceAttribute{DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint("patched ", j))}}
	}
	return object
}

func merge(t testing.TB, set *patch.Set, incoming, old *resourceapi.ResourceSlice) record.Merged {
	t.Helper()
	d, err := record.Read(record.Write{Incoming: incoming, Old: old, Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	return d.Merge(set.Apply(d.Slice), nil)
}

// TestFull: the record of 128 devices with 32 attributes each fits into an annotation,
// with different values of 16 bytes in all of them; with random text of 64 bytes, as no
// driver has, it does not, and the slice is published without the patch.
func TestFull(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for name, tt := range map[string]struct {
		text    func() string
		refused bool
	}{
		"equal":         {func() string { return "NVIDIA A100-SXM4-80GB" }, false},
		"identifiers":   {func() string { return fmt.Sprintf("%016x", random.Uint64()) }, false},
		"random, long":  {func() string { return randomText(random, 64) }, true},
		"mostly random": {func() string { return randomText(random, 24) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			slice := full(tt.text, 32)
			var set patch.Set
			set.Put(replacing(32), nil)
			merged := merge(t, &set, slice, nil)
			if (merged.Refused != nil) != tt.refused {
				t.Fatalf("refused: %v", merged.Refused)
			}
			t.Logf("%d bytes", len(merged.Slice.Annotations[record.Annotation]))
			if tt.refused {
				if merged.Slice != slice || !strings.Contains(merged.Refused.Error(), "262144") {
					t.Errorf("published something else, or %v", merged.Refused)
				}
				return
			}
			if *merged.Slice.Spec.Devices[127].Attributes["attribute_31"].StringValue != "patched 31" {
				t.Error("not patched")
			}
			back, err := record.Published(roundTrip(t, merged.Slice), time.Now())
			if err != nil || !equality.Semantic.DeepEqual(back.Spec, slice.Spec) {
				t.Errorf("not the originals: %v", err)
			}
		})
	}
}

func randomText(random *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('!' + random.IntN(90))
	}
	return string(text)
}

// TestLimits: what an API server would refuse, and lists, are left out.
func TestLimits(t *testing.T) {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Devices: []resourceapi.Device{{
		Name: "gpu-0", AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
			Value:         resource.MustParse("80Gi"),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(resource.MustParse("8Gi"))}}},
	}}}}
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	object.Spec.Devices.Capacity = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity{"gpu.example.com/memory": {Value: resource.MustParse("4Gi")}}
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"gpu.example.com/list":  {DeviceAttribute: resourceapi.DeviceAttribute{IntValues: []int64{1, 2}}},
		"gpu.example.com/model": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To("x")}},
	}
	var set patch.Set
	set.Put(object, nil)
	merged := merge(t, &set, slice, nil)
	got := merged.Slice.Spec.Devices[0]
	if memory := got.Capacity["memory"]; memory.Value.String() != "80Gi" || len(got.Attributes) != 1 {
		t.Errorf("stored %+v", got)
	}
	var blocked []string
	for _, b := range merged.Blocked {
		blocked = append(blocked, fmt.Sprintf("%s %s %s %s", b.Patch, b.Name, b.Device, b.Reason))
	}
	want := []string{"p attributes[gpu.example.com/list] gpu-0 NoLists", "p capacity[gpu.example.com/memory] gpu-0 BelowPolicy"}
	if fmt.Sprint(blocked) != fmt.Sprint(want) {
		t.Errorf("blocked %q, want %q", blocked, want)
	}
	refuse := func(*resourceapi.ResourceSlice) error { return fmt.Errorf("too much of it") }
	d, err := record.Read(record.Write{Incoming: slice})
	if err != nil {
		t.Fatal(err)
	}
	if merged := d.Merge(set.Apply(slice), refuse); merged.Slice != slice || merged.Refused == nil {
		t.Errorf("a slice that is not acceptable is published: %v", merged.Refused)
	}
}

// TestKeep: while patches are not known, what was in force stays, also over a write of the
// driver.
func TestKeep(t *testing.T) {
	slice := full(func() string { return "a" }, 2)
	var set patch.Set
	set.Put(replacing(1), nil)
	stored := merge(t, &set, slice, nil).Slice
	next := full(func() string { return "b" }, 2)
	d, err := record.Read(record.Write{Incoming: next, Old: stored})
	if err != nil {
		t.Fatal(err)
	}
	kept := d.Keep(nil)
	got := kept.Slice.Spec.Devices[5].Attributes
	if *got["attribute_0"].StringValue != "patched 0" || *got["attribute_1"].StringValue != "b" {
		t.Errorf("stored %v", got)
	}
	back, err := record.Published(kept.Slice, time.Now())
	if err != nil || *back.Spec.Devices[5].Attributes["attribute_0"].StringValue != "b" {
		t.Errorf("published %v, %v", back.Spec.Devices[5], err)
	}
}

// TestBelieved: some time after the driver received the original, its value counts when it
// publishes what a patch had written.
func TestBelieved(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(incoming, old *resourceapi.ResourceSlice, set *patch.Set) *resourceapi.ResourceSlice {
		d, err := record.Read(record.Write{Incoming: incoming, Old: old, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return d.Merge(set.Apply(d.Slice), nil).Slice
	}
	var set, none patch.Set
	set.Put(replacing(1), nil)
	patched := write(full(func() string { return "a" }, 1), nil, &set)
	restored := write(patched, patched, &none) // a touch
	value := func(slice *resourceapi.ResourceSlice) string {
		return *slice.Spec.Devices[0].Attributes["attribute_0"].StringValue
	}
	if value(restored) != "a" {
		t.Fatalf("restored: %s", value(restored))
	}
	adopted := restored.DeepCopy()
	adopted.Spec.Devices = patched.Spec.Devices
	answered := write(adopted, restored, &none)
	if value(answered) != "a" {
		t.Errorf("the driver's adopted value stays: %s", value(answered))
	}
	adopted.Annotations = answered.Annotations // drivers begin with what is stored
	now = now.Add(record.GracePeriod - time.Second)
	if again := write(adopted, answered, &none); value(again) != "a" {
		t.Errorf("the answer may have been lost: %s", value(again))
	}
	now = now.Add(time.Second)
	if meant := write(adopted, answered, &none); value(meant) != "patched 0" || meant.Annotations[record.Annotation] != "" {
		t.Errorf("the driver means it: %s %q", value(meant), meant.Annotations)
	}
}

// TestPublishedExpires: a reader sees the value that the driver means, once a value of a patch counts as
// its own again, also while the webhook is down.
func TestPublishedExpires(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	until := now.Add(record.GracePeriod)
	text, err := record.Originals{"gpu-0": {Entries: map[record.Key]record.Entry{{Name: "attribute_0"}: {Published: text("a"),
		Previous: []record.PreviousValue{{Value: text("patched"), Until: until.Unix()}}}}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	stored := record.With(full(func() string { return "patched" }, 1), text)
	for at, want := range map[time.Time]string{until.Add(-time.Second): "a", until: "patched"} {
		published, err := record.Published(stored, at)
		if err != nil || *published.Spec.Devices[0].Attributes["attribute_0"].StringValue != want {
			t.Errorf("at %s: %v, %v, want %q", at, published.Spec.Devices[0], err, want)
		}
	}
}

// TestDropped: a driver that publishes other values means all of them. An attribute that it
// drops while a patch removes it stays away, and one that it publishes as a patch has it stays.
func TestDropped(t *testing.T) {
	publish := func(attributes map[string]string) []resourceapi.Device {
		d := resourceapi.Device{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		for name, value := range attributes {
			d.Attributes[resourceapi.QualifiedName(name)] = resourceapi.DeviceAttribute{StringValue: &value}
		}
		return []resourceapi.Device{d}
	}
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"gpu.example.com/extra": {NullValue: &v1alpha1.NullValue{}},
		"gpu.example.com/rack":  {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To("r-2")}},
	}
	var set, none patch.Set
	set.Put(object, nil)
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com",
		Devices: publish(map[string]string{"model": "d-1", "extra": "d-1", "rack": "r-1"})}}
	stored := merge(t, &set, slice, nil).Slice
	next := stored.DeepCopy()
	next.Spec.Devices = publish(map[string]string{"model": "d-2", "rack": "r-2"})
	stored = merge(t, &set, next, stored).Slice
	stored = merge(t, &none, stored, stored).Slice // the patch is deleted
	if diff := cmp.Diff(next.Spec.Devices, stored.Spec.Devices); diff != "" {
		t.Errorf("-published +stored\n%s", diff)
	}
}

// TestPreviousValuesAreBounded: patches that change often leave the latest values in the record.
func TestPreviousValuesAreBounded(t *testing.T) {
	stored := full(func() string { return "a" }, 1)
	for i := range 40 {
		object := replacing(1)
		object.Spec.Devices.Attributes["gpu.example.com/attribute_0"] = v1alpha1.NullableDeviceAttribute{
			DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprint("patched ", i))}}
		var set patch.Set
		set.Put(object, nil)
		stored = merge(t, &set, stored, stored).Slice
	}
	originals, err := record.OriginalsOf(stored)
	if err != nil {
		t.Fatal(err)
	}
	for name, device := range originals {
		for key, entry := range device.Entries {
			if n := len(entry.Previous); n != 8 {
				t.Fatalf("%s, %v: %d previous values, want 8", name, key, n)
			}
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"x":                                   "must begin with",
		"flate:!!!!":                          "illegal base64",
		"{":                                   "unexpected end",
		`{"d":["a"],"g":[{"n":"m","d":[1]}]}`: "no device 1",
		`{"d":["a"],"g":[{"n":"m","c":true,"o":{"a":{"int":1}},"d":[0]}]}`:              "another kind",
		`{"d":["a"],"g":[{"n":"m","c":true,"o":{"c":{"value":"1e-9999999"}},"d":[0]}]}`: "must have an exponent between -999 and 999",
	} {
		if _, err := record.Decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestInvalidOriginals: no API server has checked the values of a record, which whoever writes slices
// can write. A slice with one that is invalid counts as it is stored.
func TestInvalidOriginals(t *testing.T) {
	for published, want := range map[string]string{
		`"n":"model","o":{"a":{"version":"12.4.0"}}`:                                "",
		`"n":"x.io/model","o":{"a":{"int":1}}`:                                      "",
		`"n":"model","o":{"a":{"version":"none"}}`:                                  "is no version",
		`"n":"model","o":{"a":{}}`:                                                  "has 0 known values",
		`"n":"memory","c":true,"w":{"c":{"value":"1"}},"o":{"c":{"value":"80Gi"}}`:  "",
		`"n":"memory","c":true,"w":{"c":{"value":"1"}},"o":{"c":{"value":"-80Gi"}}`: "negative",
		`"n":"memory","c":true,"w":{"c":{"value":"1"}},"o":{"c":{"value":"80Gi","requestPolicy":{"validRange":{"min":"1Gi","step":"0"}}}}`: "step",
	} {
		slice := full(func() string { return "x" }, 0)
		slice.Spec.Devices[1].AllowMultipleAllocations = ptr.To(true)
		slice.Spec.Devices[1].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("1")}}
		slice.Annotations = map[string]string{record.Annotation: `{"d":["` + slice.Spec.Devices[1].Name + `"],"g":[{"p":"p",` + published + `,"d":[0]}]}`}
		got, err := record.Published(slice, time.Time{})
		if want == "" {
			if err != nil || got == slice {
				t.Errorf("%s: got the stored slice: %t, %v", published, got == slice, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) || got != slice {
			t.Errorf("%s: got the stored slice: %t, %v, want %q", published, got == slice, err, want)
		}
	}
}

// TestTooManyOriginals: values that no device may have do not grow the slices of readers.
func TestTooManyOriginals(t *testing.T) {
	for values, want := range map[int]string{31: "", 32: "has 33 attributes and capacities, of at most 32"} {
		var groups []string
		for i := range values {
			groups = append(groups, fmt.Sprintf(`{"n":"a%d","p":"p","o":{"a":{"int":1}},"d":[0]}`, i))
		}
		slice := full(func() string { return "x" }, 1)
		slice.Annotations = map[string]string{record.Annotation: `{"d":["gpu-0"],"g":[` + strings.Join(groups, ",") + `]}`}
		got, err := record.Published(slice, time.Time{})
		if want == "" {
			if err != nil || len(got.Spec.Devices[0].Attributes) != values+1 {
				t.Errorf("%d values: %v", values, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) || got != slice {
			t.Errorf("%d values: got the stored slice: %t, %v, want %q", values, got == slice, err, want)
		}
	}
}

// expanding are records that are a few KB when they are compressed, each with too many values in
// another way, but for the largest one that is read.
func expanding() map[string]string {
	var names, numbers []string
	for i := range resourceapi.ResourceSliceMaxDevices {
		names, numbers = append(names, fmt.Sprintf(`"gpu-%d"`, i)), append(numbers, fmt.Sprint(i))
	}
	all := strings.Join(numbers, ",")
	of := func(n int, group func(i int) string) string {
		groups := make([]string, n)
		for i := range groups {
			groups[i] = group(i)
		}
		return `{"d":[` + strings.Join(names, ",") + `],"g":[` + strings.Join(groups, ",") + `]}`
	}
	return map[string]string{
		"previous values":  of(1, func(int) string { return `{"n":"a","f":[{}` + strings.Repeat(",{}", 16<<10) + `],"d":[` + all + `]}` }),
		"entries":          of(200, func(i int) string { return fmt.Sprintf(`{"n":"a%d","d":[%s]}`, i, all) }),
		"many entries":     of(5000, func(i int) string { return fmt.Sprintf(`{"n":"a%d","d":[%s]}`, i, all) }),
		"groups":           of(1<<20, func(int) string { return `{}` }),
		"names of patches": of(300<<10, func(int) string { return `{"n":"\\","p":"\""}` }),
		"a long text":      of(1, func(int) string { return `{"n":"a","p":"` + strings.Repeat("p", 7<<20) + `","d":[0]}` }),
		"the largest":      of(65_000, func(int) string { return `{"p":",,,","o":{"a":{"ints":[0]}}}` }),
	}
}

// compressed is a record as we store it, at the best level, as another user may.
func compressed(t *testing.T, text string) string {
	t.Helper()
	var packed strings.Builder
	base := base64.NewEncoder(base64.StdEncoding, &packed)
	w, err := flate.NewWriter(base, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), base.Close()); err != nil {
		t.Fatal(err)
	}
	return "flate:" + packed.String()
}

// TestMemoryOfRecords: a record of a few KB that would expand to many values is refused before it
// does, and its driver can still publish.
func TestMemoryOfRecords(t *testing.T) {
	const most = 100 << 20
	for name, text := range expanding() {
		t.Run(name, func(t *testing.T) {
			slice := full(func() string { return "a" }, 1)
			slice.Annotations = map[string]string{record.Annotation: compressed(t, text)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := record.Read(record.Write{Incoming: slice})
			merged := d.Merge(nil, nil)
			runtime.ReadMemStats(&after)
			if refused := err != nil && strings.Contains(err.Error(), "at most"); refused != (name != "the largest") {
				t.Errorf("refused: %v", err)
			}
			if size := len(slice.Annotations[record.Annotation]); size > 32<<10 || after.TotalAlloc-before.TotalAlloc > most {
				t.Errorf("%d bytes, for which %d MiB are allocated", size, (after.TotalAlloc-before.TotalAlloc)>>20)
			}
			if merged.Refused != nil || !record.SameDevices(merged.Slice, slice) {
				t.Errorf("the driver cannot publish: %v", merged.Refused)
			}
		})
	}
}

// TestTooManyEntries: a record that we could not read again is not stored, and others are not lost
// with it.
func TestTooManyEntries(t *testing.T) {
	slice := full(func() string { return "a" }, 1)
	known := record.Originals{}
	for _, device := range slice.Spec.Devices {
		entries := map[record.Key]record.Entry{}
		for i := range 200 {
			entries[record.Key{Name: resourceapi.QualifiedName(fmt.Sprint("a", i))}] = record.Entry{Previous: []record.PreviousValue{{Value: text("y")}}}
		}
		known[device.Name] = record.Device{Entries: entries}
	}
	d, err := record.Read(record.Write{Incoming: slice, Old: slice, Known: known})
	if err != nil {
		t.Fatal(err)
	}
	merged := d.Merge(nil, nil)
	if merged.Refused == nil || !strings.Contains(merged.Refused.Error(), "25600 attributes and capacities of devices, of at most 16384") || merged.Slice != slice {
		t.Errorf("stored with a record of %d bytes: %v", len(merged.Slice.Annotations[record.Annotation]), merged.Refused)
	}
	data, left, err := record.EncodeRecords([]record.Record{{Driver: "d", Pool: "many", Originals: known},
		{Driver: "d", Pool: "few", Originals: originalsOf(1, func(int) string { return "x" })}}, 1<<20)
	if read, unreadable := record.DecodeRecords(data); err != nil || unreadable != nil || left != 1 || len(read) != 1 || read[0].Pool != "few" {
		t.Errorf("%d left out, %d read: %v, %v", left, len(read), err, unreadable)
	}
}

// FuzzRead reads records that another user has written: nothing panics, and what is stored
// is a fixed point.
func FuzzRead(f *testing.F) {
	f.Add(`{"d":["gpu-0"],"g":[{"n":"model","p":"p","o":{"a":{"string":"x"}},"w":{"a":{"string":"y"}},"f":[{"v":{},"t":5}],"d":[0]}]}`, `{"metadata":{},"spec":{"driver":"d","devices":[{"name":"gpu-0","attributes":{"model":{"string":"y"}}}]}}`)
	f.Add(`{"d":["gpu-0"],"g":[{"n":"memory","c":true,"f":[{"v":{"c":{"value":"1Gi"}}}],"d":[0]}]}`, `{"metadata":{},"spec":{"driver":"d","devices":[{"name":"gpu-0"}]}}`)
	f.Add(`{"`, `{"metadata":{},"spec":{"driver":"d","devices":[]}}`)
	f.Fuzz(func(t *testing.T, text, object string) {
		slice := &resourceapi.ResourceSlice{}
		if json.Unmarshal([]byte(object), slice) != nil || len(object) > 1<<16 {
			return
		}
		if slice.Annotations == nil {
			slice.Annotations = map[string]string{}
		}
		slice.Annotations[record.Annotation] = text
		var set patch.Set
		set.Put(replacing(2), nil)
		d, _ := record.Read(record.Write{Incoming: slice, Old: slice})
		once := d.Merge(set.Apply(d.Slice), nil)
		if _, err := record.OriginalsOf(once.Slice); err != nil {
			t.Fatalf("wrote a originals that cannot be read: %v", err)
		}
		d, err := record.Read(record.Write{Incoming: once.Slice, Old: once.Slice})
		if err != nil {
			t.Fatal(err)
		}
		twice := d.Merge(set.Apply(d.Slice), nil)
		if !equality.Semantic.DeepEqual(once.Slice.Spec, twice.Slice.Spec) || !once.Originals.Equal(twice.Originals) {
			t.Errorf("not a fixed point:\n%v\n%v", once.Slice, twice.Slice)
		}
	})
}
