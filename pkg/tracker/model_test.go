package tracker

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/remerge"
)

// naive computes the view from scratch, as simply as can be.
func naive(objects map[objectKey]any) map[string]*resourceapi.ResourceSlice {
	var all []*resourceapi.DeviceTaintRule
	for key, object := range objects {
		if rule, ok := object.(*resourceapi.DeviceTaintRule); ok && key.kind == RuleKind {
			all = append(all, rule)
		}
	}
	slices.SortFunc(all, func(a, b *resourceapi.DeviceTaintRule) int { return strings.Compare(a.Name, b.Name) })
	view := map[string]*resourceapi.ResourceSlice{}
	for _, object := range objects {
		published, ok := object.(*resourceapi.ResourceSlice)
		if !ok {
			continue
		}
		slice := published.DeepCopy()
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			naivePatch(objects, published, device)
			for _, rule := range all {
				if selects(rule.Spec.DeviceSelector, slice, device.Name) {
					device.Taints = append(device.Taints, rule.Spec.Taint)
				}
			}
		}
		view[slice.Name] = slice
	}
	return view
}

// naivePatch applies the patches to a device, from scratch.
func naivePatch(objects map[objectKey]any, slice *resourceapi.ResourceSlice, device *resourceapi.Device) {
	var all []*v1alpha1.ResourceSlicePatch
	for _, object := range objects {
		if p, ok := object.(*v1alpha1.ResourceSlicePatch); ok && filters(objects, p, slice, device.Name) {
			all = append(all, p)
		}
	}
	// The last one wins: what comes later has the higher precedence.
	slices.SortFunc(all, func(a, b *v1alpha1.ResourceSlicePatch) int {
		return cmp.Or(cmp.Compare(*a.Spec.Devices.Priority, *b.Spec.Devices.Priority),
			b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	attributes := maps.Clone(device.Attributes)
	for _, p := range all {
		for name, value := range p.Spec.Devices.Attributes {
			key := resourceapi.QualifiedName(strings.TrimPrefix(string(name), slice.Spec.Driver+"/"))
			if delete(attributes, key); value.NullValue == nil {
				attributes[key] = value.DeviceAttribute
			}
		}
	}
	device.Attributes = attributes
}

func filters(objects map[objectKey]any, p *v1alpha1.ResourceSlicePatch, slice *resourceapi.ResourceSlice, device string) bool {
	f := p.Spec.Devices.Filter
	expressions := f.Selectors
	if f.DeviceClassName != nil {
		class, ok := objects[objectKey{ClassKind, *f.DeviceClassName}].(*resourceapi.DeviceClass)
		if !ok {
			return false
		}
		expressions = slices.Concat(expressions, class.Spec.Selectors)
	}
	for _, s := range expressions {
		if s.CEL.Expression == fails || s.CEL.Expression == isDev1 && device != "dev1" {
			return false
		}
	}
	return selects(&resourceapi.DeviceTaintSelector{Driver: f.Driver, Pool: f.Pool, Device: f.Device}, slice, device)
}

func selects(s *resourceapi.DeviceTaintSelector, slice *resourceapi.ResourceSlice, device string) bool {
	is := func(want *string, got string) bool { return want == nil || *want == got }
	return s != nil && is(s.Driver, slice.Spec.Driver) && is(s.Pool, slice.Spec.Pool.Name) && is(s.Device, device)
}

// view is what a snapshot lists.
func view(s *Snapshot) map[string]*resourceapi.ResourceSlice {
	view := map[string]*resourceapi.ResourceSlice{}
	for _, slice := range s.List(labels.Everything()) {
		view[slice.Name] = slice
	}
	return view
}

// text is everything in a value, to see later whether it has changed.
func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// replay applies events to what a reader knows, and fails if they do not fit.
func replay(t *testing.T, known map[string]*resourceapi.ResourceSlice, deltas []delta) {
	t.Helper()
	for _, d := range deltas {
		had := known[d.name()]
		if (had == nil) != (d.old == nil) || had != nil && text(t, had) != text(t, d.old.merged) {
			t.Fatalf("the old object of the event of %s is not what the reader saw:\n%s", d.name(), gocmp.Diff(had, d.old))
		}
		if d.new == nil {
			delete(known, d.name())
			continue
		}
		if had != nil && text(t, had) == text(t, d.new.merged) {
			t.Fatalf("an event of %s without a change", d.name())
		}
		known[d.name()] = d.new.merged
	}
}

// check compares a snapshot with what it must be, in all the ways to read it.
func check(t *testing.T, s *Snapshot, objects map[objectKey]any) {
	t.Helper()
	want := naive(objects)
	if diff := gocmp.Diff(want, view(s)); diff != "" {
		t.Fatalf("the view is not the recomputation (-want +got):\n%s", diff)
	}
	devices := 0
	for name, slice := range want {
		devices += len(slice.Spec.Devices)
		if got := s.Get(name); text(t, got) != text(t, slice) {
			t.Fatalf("Get(%s) differs", name)
		}
		if s.Published(name) != objects[objectKey{SliceKind, name}] {
			t.Fatalf("Published(%s) is not the informer's object", name)
		}
		if !slices.Contains(s.ByPool(slice.Spec.Driver, slice.Spec.Pool.Name), s.Get(name)) {
			t.Fatalf("%s is not in its pool", name)
		}
		checkDevices(t, s, slice, objects, obsolete(slice, want))
	}
	n := 0
	for range s.Devices() {
		n++
	}
	if n != devices || s.devices != devices {
		t.Fatalf("%d devices, %d counted, want %d", n, s.devices, devices)
	}
	var names []string
	for _, slice := range s.List(nil) {
		names = append(names, slice.Name)
	}
	if !slices.IsSorted(names) {
		t.Fatalf("not in the order of names: %v", names)
	}
	pools := 0
	for p := range s.pools.all() {
		pools += len(p.entries)
	}
	if pools != len(want) {
		t.Fatalf("%d slices in pools, want %d", pools, len(want))
	}
}

// obsolete reports whether all slices of a newer generation of the pool of a slice exist.
func obsolete(slice *resourceapi.ResourceSlice, all map[string]*resourceapi.ResourceSlice) bool {
	have := map[int64]int64{}
	for _, other := range all {
		if pool := other.Spec.Pool; other.Spec.Driver == slice.Spec.Driver && pool.Name == slice.Spec.Pool.Name {
			have[pool.Generation]++
		}
	}
	for _, other := range all {
		if pool := other.Spec.Pool; other.Spec.Driver == slice.Spec.Driver && pool.Name == slice.Spec.Pool.Name &&
			pool.Generation > slice.Spec.Pool.Generation && have[pool.Generation] >= pool.ResourceSliceCount {
			return true
		}
	}
	return false
}

// checkDevices looks up each device, and the sources of its taints.
func checkDevices(t *testing.T, s *Snapshot, slice *resourceapi.ResourceSlice, objects map[objectKey]any, obsolete bool) {
	t.Helper()
	for i, device := range slice.Spec.Devices {
		found, ok := s.Device(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
		if obsolete && ok && found.Slice().Name == slice.Name {
			t.Fatalf("device %s of the obsolete %s is found", device.Name, slice.Name)
		}
		if obsolete {
			continue
		}
		if !ok || found.Name() != device.Name || found.Driver() != slice.Spec.Driver || found.Pool() != slice.Spec.Pool.Name {
			t.Fatalf("device %s of %s is not found", device.Name, slice.Name)
		}
		if found.Slice().Spec.Pool.Generation < slice.Spec.Pool.Generation {
			t.Fatalf("device %s is of an older generation", device.Name)
		}
		e, _ := s.slices.get(slice.Name)
		taints := Device{e, i}.Taints()
		if len(taints) != len(device.Taints) {
			t.Fatalf("%d taints with source, want %d", len(taints), len(device.Taints))
		}
		for j, taint := range taints {
			if !sameTaint(&taint.DeviceTaint, &device.Taints[j]) {
				t.Fatalf("taint %d differs", j)
			}
			rule, _ := objects[objectKey{RuleKind, taint.Source.Name}].(*resourceapi.DeviceTaintRule)
			ofRule := rule != nil && sameTaint(&rule.Spec.Taint, &taint.DeviceTaint) && rule.UID == taint.Source.UID
			if taint.Source.Kind == RuleSource != ofRule || taint.Source.Kind == DriverSource != (taint.Source.Name == slice.Spec.Driver) {
				t.Fatalf("taint %s comes from %s", taint.Key, taint.Source)
			}
		}
	}
}

// TestModel applies random histories, in batches of random sizes, and compares the view
// with a recomputation after each, and so the view of [Merge] with a memory. It also keeps old snapshots and the objects of the
// informers: neither may ever change.
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(seed)
		w.patches = seed%2 == 1
		s, memory := newState(), &remerge.Memory{}
		objects := map[objectKey]any{}
		known := map[string]*resourceapi.ResourceSlice{}
		was := map[*resourceapi.ResourceSlice]string{}
		for range 60 {
			batch := map[objectKey]any{}
			for range 1 + w.IntN(1+w.IntN(20)) {
				key, object := w.change(12, 8)
				batch[key] = object
				if slice, ok := object.(*resourceapi.ResourceSlice); ok {
					was[slice] = text(t, slice)
				}
			}
			replay(t, known, s.apply(maps.Clone(batch)))
			for key, object := range batch {
				if objects[key] = object; object == nil {
					delete(objects, key)
				}
			}
			check(t, s.current, objects)
			all := append(slices.Collect(maps.Values(objects)), memory)
			merged := Merge(all...)
			check(t, merged, objects)
			if again := Merge(all...); again != merged {
				t.Fatalf("seed %d: the same objects give another view", seed)
			}
			if got := view(s.current); text(t, got) != text(t, known) {
				t.Fatalf("seed %d: a reader of the events has another view:\n%s", seed, gocmp.Diff(got, known))
			}
			for _, slice := range s.current.List(nil) {
				was[slice] = text(t, slice)
			}
		}
		for slice, text := range was {
			if got, _ := json.Marshal(slice); string(got) != text {
				t.Fatalf("seed %d: %s was changed", seed, slice.Name)
			}
		}
	}
}

// TestOrdered compares the list with a map.
func TestOrdered(t *testing.T) {
	w := newWorld(1)
	var list ordered[*pool]
	want := map[string]*pool{}
	for round := range 600 {
		before, length := slices.Collect(list.all()), list.length
		old := list
		edits := map[string]edit[*pool]{}
		n := w.IntN(400)
		if round%2 == 0 {
			n = 1
		}
		for range n {
			name := w.some("", 3000)
			edits[name] = edit[*pool]{key: name, item: &pool{name: name}, remove: w.IntN(3) == 0}
		}
		list = list.apply(slices.Collect(maps.Values(edits)))
		for name, e := range edits {
			if want[name] = e.item; e.remove {
				delete(want, name)
			}
		}
		got := slices.Collect(list.all())
		if list.length != len(want) || len(got) != len(want) || !slices.IsSortedFunc(got, func(a, b *pool) int { return strings.Compare(a.name, b.name) }) {
			t.Fatalf("%d items, %d counted, want %d in order", len(got), list.length, len(want))
		}
		for name, item := range want {
			if found, ok := list.get(name); !ok || found != item {
				t.Fatalf("%s is not found", name)
			}
		}
		if _, ok := list.get("none"); ok {
			t.Fatal("what is not there is found")
		}
		if !slices.Equal(before, slices.Collect(old.all())) || old.length != length {
			t.Fatal("the old list has changed")
		}
		from := w.some("", 3000)
		if first := slices.Collect(list.from(from)); len(first) > 0 && first[0].name < from {
			t.Fatalf("from %s begins with %s", from, first[0].name)
		}
	}
}
