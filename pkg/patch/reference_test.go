package patch

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// reference merges one device after the other, attribute after attribute, from a deep
// copy, with the filters written in Go. It shares no code with the package.
func reference(s *resourceapi.ResourceSlice, patches []*v1alpha1.ResourceSlicePatch, holds map[string]func(resourceapi.Device) bool) *resourceapi.ResourceSlice {
	sorted := slices.Clone(patches)
	slices.SortFunc(sorted, func(a, b *v1alpha1.ResourceSlicePatch) int {
		priority := func(p *v1alpha1.ResourceSlicePatch) int64 {
			if p.Spec.Devices.Priority != nil {
				return *p.Spec.Devices.Priority
			}
			return 0
		}
		return cmp.Or(-cmp.Compare(priority(a), priority(b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	merged := s.DeepCopy()
	for i := range merged.Spec.Devices {
		referenceDevice(s, i, &merged.Spec.Devices[i], sorted, holds)
	}
	return merged
}

type referenceChange struct {
	capacity bool
	name     string
	p        *v1alpha1.ResourceSlicePatch
}

func referenceDevice(s *resourceapi.ResourceSlice, index int, d *resourceapi.Device, sorted []*v1alpha1.ResourceSlicePatch, holds map[string]func(resourceapi.Device) bool) {
	var changes []referenceChange
	decided := map[referenceChange]bool{}
	add := func(capacity bool, name string, p *v1alpha1.ResourceSlicePatch) {
		if key := (referenceChange{capacity, name, nil}); !decided[key] {
			decided[key] = true
			changes = append(changes, referenceChange{capacity, name, p})
		}
	}
	for _, p := range sorted {
		if !referenceMatches(s, s.Spec.Devices[index], p.Spec.Devices.Filter, holds) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Attributes)) {
			add(false, string(name), p)
		}
		for _, name := range slices.Sorted(maps.Keys(p.Spec.Devices.Capacity)) {
			add(true, string(name), p)
		}
	}
	spelled := func(name string) []resourceapi.QualifiedName {
		if id, own := strings.CutPrefix(name, s.Spec.Driver+"/"); own {
			return []resourceapi.QualifiedName{resourceapi.QualifiedName(id), resourceapi.QualifiedName(name)}
		}
		return []resourceapi.QualifiedName{resourceapi.QualifiedName(name)}
	}
	for _, growing := range []bool{false, true} {
		for _, c := range changes {
			if c.capacity {
				referenceCapacity(d, spelled(c.name), c.p.Spec.Devices.Capacity[resourceapi.FullyQualifiedName(c.name)], growing)
			} else {
				referenceAttribute(d, spelled(c.name), c.p.Spec.Devices.Attributes[resourceapi.FullyQualifiedName(c.name)], growing)
			}
		}
	}
}

func referenceMatches(s *resourceapi.ResourceSlice, d resourceapi.Device, f *v1alpha1.DevicePatchFilter, holds map[string]func(resourceapi.Device) bool) bool {
	if f == nil {
		return true
	}
	is := func(want *string, got string) bool { return want == nil || *want == got }
	if !is(f.Driver, s.Spec.Driver) || !is(f.Pool, s.Spec.Pool.Name) || !is(f.Device, d.Name) {
		return false
	}
	for _, selector := range f.Selectors {
		if !holds[selector.CEL.Expression](d) {
			return false
		}
	}
	return true
}

func referenceCapacity(d *resourceapi.Device, names []resourceapi.QualifiedName, value resourceapi.DeviceCapacity, growing bool) {
	var there []resourceapi.QualifiedName
	for _, name := range names {
		if _, is := d.Capacity[name]; is {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		if growing && len(d.Attributes)+len(d.Capacity) < 32 {
			if d.Capacity == nil {
				d.Capacity = sizes{}
			}
			d.Capacity[names[len(names)-1]] = value
		}
		return
	}
	kept := d.Capacity[there[0]]
	kept.Value = value.Value
	for _, name := range there {
		delete(d.Capacity, name)
	}
	d.Capacity[there[0]] = kept
}

func referenceAttribute(d *resourceapi.Device, names []resourceapi.QualifiedName, value v1alpha1.NullableDeviceAttribute, growing bool) {
	length := func(a resourceapi.DeviceAttribute) int { return max(1, len(a.IntValues)) }
	var there []resourceapi.QualifiedName
	total, before, replaced := 0, 0, 0
	for name, a := range d.Attributes {
		total += length(a)
		if slices.Contains(names, name) {
			there = append(there, name)
			replaced += length(a)
		}
	}
	slices.SortFunc(there, func(a, b resourceapi.QualifiedName) int { return len(a) - len(b) })
	if len(there) > 0 {
		before = length(d.Attributes[there[0]])
	}
	switch {
	case value.NullValue != nil:
	case len(there) == 0 && (!growing || len(d.Attributes)+len(d.Capacity) >= 32):
		return
	case length(value.DeviceAttribute) > before && (!growing || total+length(value.DeviceAttribute)-replaced > 48):
		return
	}
	for _, name := range there {
		delete(d.Attributes, name)
	}
	if value.NullValue != nil {
		return
	}
	if d.Attributes == nil {
		d.Attributes = names0()
	}
	there = append(there, names[len(names)-1])
	d.Attributes[there[0]] = value.DeviceAttribute
}

func names0() names { return names{} }

// expressions with what they mean for a device. A device without n makes the second
// fail: the patch does not apply.
var expressions = map[string]func(resourceapi.Device) bool{
	"true": func(resourceapi.Device) bool { return true },
	`device.attributes["gpu.example.com"].n > 1`: func(d resourceapi.Device) bool {
		a, short := d.Attributes["n"]
		if !short {
			a = d.Attributes["gpu.example.com/n"]
		}
		return a.IntValue != nil && *a.IntValue > 1
	},
	`"memory" in device.capacity["gpu.example.com"]`: func(d resourceapi.Device) bool {
		_, short := d.Capacity["memory"]
		_, long := d.Capacity["gpu.example.com/memory"]
		return short || long
	},
}

// world makes random slices and patches out of few names, so that they meet.
type world struct{ *rand.Rand }

func (w world) one(chance int) bool { return w.IntN(chance) == 0 }

func (w world) attribute() resourceapi.DeviceAttribute {
	if w.one(4) {
		return resourceapi.DeviceAttribute{IntValues: make([]int64, 1+w.IntN(12))}
	}
	if w.one(2) {
		return str(fmt.Sprint("v", w.IntN(2)))
	}
	return num(int64(w.IntN(4)))
}

func (w world) slice() *resourceapi.ResourceSlice {
	s := slice()
	for i := range w.IntN(5) {
		d := resourceapi.Device{Name: fmt.Sprint("d", i)}
		for _, name := range []resourceapi.QualifiedName{"n", "model", model, "x.io/a"} {
			if w.one(2) {
				if d.Attributes == nil {
					d.Attributes = names{}
				}
				d.Attributes[name] = w.attribute()
			}
		}
		for i := range w.IntN(2) * (23 + w.IntN(8)) { // half of the devices are nearly full
			if d.Attributes == nil {
				d.Attributes = names{}
			}
			d.Attributes[resourceapi.QualifiedName(fmt.Sprint("filler", i))] = num(1)
		}
		for _, name := range []resourceapi.QualifiedName{"memory", "gpu.example.com/memory", "x.io/c"} {
			if w.one(3) {
				if d.Capacity == nil {
					d.Capacity = sizes{}
				}
				d.Capacity[name] = size(fmt.Sprint(w.IntN(3)))
			}
		}
		if total := w.fits(d); total {
			s.Spec.Devices = append(s.Spec.Devices, d)
		}
	}
	return s
}

// fits reports whether an API server accepts the device.
func (w world) fits(d resourceapi.Device) bool { return valuesOf(d) <= 48 && namesOf(d) <= 32 }

func namesOf(d resourceapi.Device) int { return len(d.Attributes) + len(d.Capacity) }
func valuesOf(d resourceapi.Device) (n int) {
	for _, a := range d.Attributes {
		n += max(1, len(a.IntValues))
	}
	return n
}

func (w world) patch(name string) *v1alpha1.ResourceSlicePatch {
	devices := spec{Attributes: attrs{}, Capacity: caps{}}
	for range w.IntN(4) {
		name := resourceapi.FullyQualifiedName([]string{model, "gpu.example.com/n", "x.io/a", "x.io/b", "x.io/c"}[w.IntN(5)])
		devices.Attributes[name] = null
		if !w.one(4) {
			devices.Attributes[name] = set(w.attribute())
		}
	}
	for range w.IntN(3) {
		name := resourceapi.FullyQualifiedName([]string{"gpu.example.com/memory", "x.io/c", "x.io/d"}[w.IntN(3)])
		devices.Capacity[name] = resourceapi.DeviceCapacity{Value: resource.MustParse(fmt.Sprint(w.IntN(3)))}
	}
	if w.one(2) {
		priority := int64(w.IntN(3) - 1)
		devices.Priority = &priority
	}
	if w.one(2) {
		all := slices.Sorted(maps.Keys(expressions))
		devices.Filter = celOf(all[w.IntN(len(all))], all[w.IntN(len(all))])
		if w.one(3) {
			device := fmt.Sprint("d", w.IntN(4))
			devices.Filter.Device = &device
		}
		if w.one(5) {
			pool := []string{"pool", "other"}[w.IntN(2)]
			devices.Filter.Pool = &pool
		}
	}
	return object(name, w.IntN(2), devices)
}

func (w world) patches() (all []*v1alpha1.ResourceSlicePatch) {
	for i := range w.IntN(6) {
		all = append(all, w.patch(fmt.Sprint("p", i)))
	}
	w.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// agree holds Apply against the reference, and against what always has to be.
func agree(t *testing.T, c *Compiler, s *resourceapi.ResourceSlice, objects []*v1alpha1.ResourceSlicePatch) {
	t.Helper()
	before := s.DeepCopy()
	var patches []*Patch
	for _, o := range objects {
		patches = append(patches, c.Compile(o, nil))
	}
	got, want := Apply(s, patches), reference(s, objects, expressions)
	if diff := gocmp.Diff(want, got.Slice); diff != "" {
		t.Fatalf("differs from the reference (-want +got):\n%s\npublished: %v\npatches: %s", diff, s.Spec.Devices, gocmp.Diff(nil, objects))
	}
	if got.Slice != s && reflect.DeepEqual(got.Slice, s) {
		t.Fatal("nothing is different, yet the slice was copied")
	}
	if !reflect.DeepEqual(s, before) {
		t.Fatal("the published slice was changed")
	}
	if again := Apply(s, patches); !reflect.DeepEqual(again.Slice, got.Slice) || !reflect.DeepEqual(reports(again), reports(got)) {
		t.Fatal("applied twice to the published slice, another result")
	}
	for i, d := range got.Slice.Spec.Devices {
		if namesOf(d) > 32 || valuesOf(d) > 48 {
			t.Fatalf("device %d has %d names and %d values", i, namesOf(d), valuesOf(d))
		}
		for key := range got.Device(i) {
			_, attribute := d.Attributes[key.Spelling]
			_, capacity := d.Capacity[key.Spelling]
			is := attribute && !key.Name.Capacity || capacity && key.Name.Capacity
			if want := key.Effect == Added || key.Effect == Replaced; want && !is || key.Effect == Removed && is {
				t.Fatalf("device %d: %s is said to be %s as %s: %v", i, key.Name, key.Effect, key.Spelling, d)
			}
		}
	}
}

func reports(r Result) map[string]Summary {
	all := map[string]Summary{}
	for p, report := range r.Reports() {
		all[p.Object.Name] = *report
	}
	return all
}

func TestReference(t *testing.T) {
	var c Compiler
	for seed := range uint64(3000) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		agree(t, &c, w.slice(), w.patches())
	}
}

func FuzzApply(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	var c Compiler
	f.Fuzz(func(t *testing.T, a, b uint64) {
		w := world{rand.New(rand.NewPCG(a, b))}
		agree(t, &c, w.slice(), w.patches())
	})
}
