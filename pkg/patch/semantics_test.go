package patch

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const driver = "gpu.example.com"

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type (
	spec  = v1alpha1.DevicePatch
	attrs = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute
	caps  = map[resourceapi.FullyQualifiedName]resourceapi.DeviceCapacity
	names = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	sizes = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
)

func str(value string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: &value}
}
func num(value int64) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: &value}
}
func set(value resourceapi.DeviceAttribute) v1alpha1.NullableDeviceAttribute {
	return v1alpha1.NullableDeviceAttribute{DeviceAttribute: value}
}
func size(value string) resourceapi.DeviceCapacity {
	return resourceapi.DeviceCapacity{Value: resource.MustParse(value)}
}

var null = v1alpha1.NullableDeviceAttribute{NullValue: &v1alpha1.NullValue{}}

// object makes a patch; seconds is how long after the first one it was created.
func object(name string, seconds int, devices spec) *v1alpha1.ResourceSlicePatch {
	return &v1alpha1.ResourceSlicePatch{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created.Add(time.Duration(seconds) * time.Second))},
		Spec:       v1alpha1.ResourceSlicePatchSpec{Devices: devices},
	}
}

func compile(objects ...*v1alpha1.ResourceSlicePatch) (compiled []*Patch) {
	var c Compiler
	for _, o := range objects {
		compiled = append(compiled, c.Compile(o, nil))
	}
	return compiled
}

func slice(devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}}
	s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices = driver, "pool", devices
	return s
}

func device(name string, attributes names) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: attributes}
}

func celOf(expressions ...string) *v1alpha1.DevicePatchFilter {
	filter := &v1alpha1.DevicePatchFilter{}
	for _, e := range expressions {
		filter.Selectors = append(filter.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: e}})
	}
	return filter
}

// models returns the value of an attribute in each device, "-" where it is missing.
func models(s *resourceapi.ResourceSlice, name resourceapi.QualifiedName) string {
	var all []string
	for _, d := range s.Spec.Devices {
		value := "-"
		if a, known := d.Attributes[name]; known && a.StringValue != nil {
			value = *a.StringValue
		}
		all = append(all, value)
	}
	return strings.Join(all, " ")
}

// apply applies patches in every order, checks that the result is the same, and that the
// inputs have not changed.
func apply(t *testing.T, s *resourceapi.ResourceSlice, objects ...*v1alpha1.ResourceSlicePatch) Result {
	t.Helper()
	before := s.DeepCopy()
	patches := compile(objects...)
	result := Apply(s, patches)
	slices.Reverse(patches)
	if again := Apply(s, patches); !reflect.DeepEqual(again.Slice, result.Slice) {
		t.Errorf("the order of the patches matters:\n%s", cmp.Diff(result.Slice, again.Slice))
	}
	if !reflect.DeepEqual(before, s) {
		t.Errorf("the published slice was changed:\n%s", cmp.Diff(before, s))
	}
	return result
}

func wantModels(t *testing.T, r Result, name resourceapi.QualifiedName, want string) {
	t.Helper()
	if got := models(r.Slice, name); got != want {
		t.Errorf("%s = %s, want %s", name, got, want)
	}
}

const model = "gpu.example.com/model"

// conflicting reports whether a patch had no room, or another of the same priority won.
func conflicting(r *Summary) bool {
	return slices.ContainsFunc(r.Keys(), func(k KeyReport) bool { return k.Skipped > 0 || k.Tied > 0 })
}

func report(r Result, name string) *Summary {
	for p, report := range r.Reports() {
		if p.Object.Name == name {
			return report
		}
	}
	return nil
}

// The rows of KEP-5027.

func TestFilterIsAConjunction(t *testing.T) {
	s := slice(device("a", names{"model": str("x"), "n": num(1)}), device("b", names{"model": str("x"), "n": num(2)}))
	value := func(filter *v1alpha1.DevicePatchFilter) spec {
		return spec{Filter: filter, Attributes: attrs{model: set(str("y"))}}
	}
	text := func(s string) *string { return &s }
	const one = `device.attributes["gpu.example.com"].n == 1`
	for name, tc := range map[string]struct {
		filter *v1alpha1.DevicePatchFilter
		want   string
	}{
		"no filter":              {nil, "y y"},
		"empty filter":           {&v1alpha1.DevicePatchFilter{}, "y y"},
		"driver":                 {&v1alpha1.DevicePatchFilter{Driver: text(driver)}, "y y"},
		"other driver":           {&v1alpha1.DevicePatchFilter{Driver: text("other")}, "x x"},
		"pool":                   {&v1alpha1.DevicePatchFilter{Pool: text("pool")}, "y y"},
		"other pool":             {&v1alpha1.DevicePatchFilter{Pool: text("other")}, "x x"},
		"device":                 {&v1alpha1.DevicePatchFilter{Device: text("b")}, "x y"},
		"device, other pool":     {&v1alpha1.DevicePatchFilter{Device: text("b"), Pool: text("other")}, "x x"},
		"selector":               {celOf(one), "y x"},
		"both selectors hold":    {celOf(one, "true"), "y x"},
		"one selector does not":  {celOf(one, "false"), "x x"},
		"selector, other device": {&v1alpha1.DevicePatchFilter{Device: text("b"), Selectors: celOf(one).Selectors}, "x x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := apply(t, s, object("p", 0, value(tc.filter)))
			wantModels(t, r, "model", tc.want)
			if !strings.Contains(tc.want, "y") && r.Slice != s {
				t.Error("no device matches: want the same slice")
			}
		})
	}
}

func TestPatchBeatsSlice(t *testing.T) {
	r := apply(t, slice(device("a", names{"model": str("published")})), object("p", 0, spec{Attributes: attrs{model: set(str("patched"))}}))
	wantModels(t, r, "model", "patched")
}

func TestHigherPriorityWinsThenOlder(t *testing.T) {
	ten := int64(10)
	old := object("z-old", 0, spec{Attributes: attrs{model: set(str("old"))}}) // the last by name
	young := object("young", 5, spec{Attributes: attrs{model: set(str("young"))}})
	r := apply(t, slice(device("a", names{"model": str("published")})), young, old)
	wantModels(t, r, "model", "old")
	if !conflicting(report(r, "young")) || conflicting(report(r, "z-old")) {
		t.Error("the younger of two equal priorities conflicts, the older does not")
	}
	young.Spec.Devices.Priority = &ten
	r = apply(t, slice(device("a", nil)), young, old)
	wantModels(t, r, model, "young")
	if conflicting(report(r, "z-old")) {
		t.Error("a lower priority is no conflict")
	}
	old.Generation, young.Generation = 7, 1 // an edit does not make a patch younger
	young.Spec.Devices.Priority = nil
	wantModels(t, apply(t, slice(device("a", nil)), young, old), model, "old")
}

func TestNullRemovesAndNeverReachesCEL(t *testing.T) {
	s := slice(device("a", names{"model": str("x"), "n": num(1)}))
	r := apply(t, s, object("p", 0, spec{Attributes: attrs{model: null, "gpu.example.com/none": null}}))
	for expression, want := range map[string]bool{ // as the selector of a claim
		`has(device.attributes["gpu.example.com"].model)`: false, `has(device.attributes["gpu.example.com"].none)`: false,
		`device.attributes["gpu.example.com"].n == 1`: true,
	} {
		d := r.Slice.Spec.Devices[0]
		compiled := dracel.GetCompiler(dracel.Features{}).CompileCELExpression(expression, dracel.Options{})
		if got, _, err := compiled.DeviceMatches(t.Context(), dracel.Device{Driver: driver, Attributes: d.Attributes, Capacity: d.Capacity}); err != nil || got != want {
			t.Errorf("%s = %t, %v", expression, got, err)
		}
	}
	if want := (names{"n": num(1)}); !reflect.DeepEqual(r.Slice.Spec.Devices[0].Attributes, want) {
		t.Error(cmp.Diff(want, r.Slice.Spec.Devices[0].Attributes))
	}
}

func TestCapacityIsReducedNotRemoved(t *testing.T) {
	s := slice(resourceapi.Device{Name: "a", Capacity: sizes{"memory": size("80Gi")}})
	r := apply(t, s, object("p", 0, spec{Capacity: caps{"gpu.example.com/memory": size("0")}}))
	if got, known := r.Slice.Spec.Devices[0].Capacity["memory"]; !known || !got.Value.IsZero() {
		t.Errorf("memory is there: %t, with %s, want 0", known, got.Value.String())
	}
}

func TestUnqualifiedNamesAreRefused(t *testing.T) {
	patches := compile(object("p", 0, spec{
		Attributes: attrs{"model": set(str("y")), "gpu.example.com/other": set(str("z"))},
		Capacity:   caps{"memory": size("1")},
	}))
	r := Apply(slice(device("a", names{"model": str("x")})), patches)
	wantModels(t, r, "model", "x")
	wantModels(t, r, "gpu.example.com/other", "z")
	if got := len(patches[0].Problems); got != 2 {
		t.Errorf("%d problems, want 2: %v", got, patches[0].Problems)
	}
}

func TestCELErrorSparesTheOtherDevices(t *testing.T) {
	s := slice(device("a", nil), device("b", names{"n": num(1)}), device("c", nil))
	r := apply(t, s, object("p", 0, spec{Filter: celOf(`device.attributes["gpu.example.com"].n == 1`), Attributes: attrs{model: set(str("y"))}}))
	wantModels(t, r, model, "- y -")
	failures := report(r, "p").Failures
	if failures.Devices != 2 || !strings.Contains(failures.First, "device a of ResourceSlice slice: spec.devices.filter.selectors[0].cel.expression: no such key: n") {
		t.Errorf("%+v", failures)
	}
}

func TestNonBooleanIsAnError(t *testing.T) {
	s := slice(device("a", names{"n": num(1)}))
	r := apply(t, s, object("p", 0, spec{Filter: celOf(`device.attributes["gpu.example.com"].n`), Attributes: attrs{model: set(str("y"))}}))
	if r.Slice != s || report(r, "p").Failures.Devices != 1 {
		t.Errorf("changed %v, %+v", r.Slice != s, report(r, "p"))
	}
}

func TestSharesMemoryWithThePublishedSlice(t *testing.T) {
	name := "b"
	s := slice(device("a", names{"n": num(1)}), resourceapi.Device{Name: "b", Attributes: names{"n": num(1)}, Capacity: sizes{"memory": size("1")}})
	r := apply(t, s, object("p", 0, spec{Filter: &v1alpha1.DevicePatchFilter{Device: &name}, Attributes: attrs{model: set(str("y"))}}))
	same := func(a, b any) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	if !same(r.Slice.Spec.Devices[0].Attributes, s.Spec.Devices[0].Attributes) || !same(r.Slice.Spec.Devices[1].Capacity, s.Spec.Devices[1].Capacity) {
		t.Error("a map that has not changed was copied")
	}
	if same(r.Slice.Spec.Devices[1].Attributes, s.Spec.Devices[1].Attributes) {
		t.Error("the map of the published slice was changed")
	}
}

func TestNoMatchIsTheSameSlice(t *testing.T) {
	s := slice(device("a", names{"model": str("y")}))
	for name, devices := range map[string]spec{
		"nothing to do": {},
		"equal value":   {Attributes: attrs{model: set(str("y"))}},
		"null, missing": {Attributes: attrs{"gpu.example.com/none": null}},
		"matches none":  {Filter: celOf("false"), Attributes: attrs{model: set(str("z"))}},
	} {
		if r := apply(t, s, object("p", 0, devices)); r.Slice != s {
			t.Errorf("%s: the slice was copied", name)
		}
	}
	if r := Apply(s, nil); r.Slice != s {
		t.Error("no patches: the slice was copied")
	}
}

// All selectors of the class must be true, and those of the filter as well.
func TestClassContributesAllItsSelectors(t *testing.T) {
	class := func(expressions ...string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{Selectors: celOf(expressions...).Selectors}}
	}
	s := slice(device("a", names{"n": num(1)}), device("b", names{"n": num(2)}), device("c", names{"n": num(3)}))
	n := func(is string) string { return `device.attributes["gpu.example.com"].n ` + is }
	for name, tc := range map[string]struct {
		class []string
		own   []string
		want  string
	}{
		"no selector":  {nil, nil, "y y y"},
		"both hold":    {[]string{n("> 1"), n("< 3")}, nil, "- y -"},
		"with its own": {[]string{n("> 1")}, []string{n("!= 2")}, "- - y"},
		"none":         {[]string{n("> 1"), n("< 2")}, nil, "- - -"},
	} {
		o := object("p", 0, spec{Filter: celOf(tc.own...), Attributes: attrs{model: set(str("y"))}})
		o.Spec.Devices.Filter.DeviceClassName = new("gpu")
		var c Compiler
		if got := models(Apply(s, []*Patch{c.Compile(o, class(tc.class...))}).Slice, model); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// The answers to what KEP-5027 leaves open.

func TestSameSecondSamePriority(t *testing.T) {
	r := apply(t, slice(device("a", nil)),
		object("b", 0, spec{Attributes: attrs{model: set(str("b"))}}), object("a", 0, spec{Attributes: attrs{model: set(str("a"))}}))
	wantModels(t, r, model, "a")
}

func TestNoPriorityIsZero(t *testing.T) {
	zero := int64(0)
	r := apply(t, slice(device("a", nil)),
		object("b", 0, spec{Attributes: attrs{model: set(str("b"))}}), object("a", 1, spec{Priority: &zero, Attributes: attrs{model: set(str("a"))}}))
	wantModels(t, r, model, "b")
}

func TestWinnerPerKey(t *testing.T) {
	ten := int64(10)
	r := apply(t, slice(device("a", nil)),
		object("low", 0, spec{Attributes: attrs{model: set(str("low")), "x.io/only_low": set(str("low"))}}),
		object("high", 1, spec{Priority: &ten, Attributes: attrs{model: set(str("high"))}, Capacity: caps{"x.io/only_low": size("1")}}))
	wantModels(t, r, model, "high")
	wantModels(t, r, "x.io/only_low", "low")
	var got []string
	for key := range r.Device(0) {
		line := fmt.Sprint(key.Name, " ", key.Effect, " ", key.Winner.Object.Name)
		for _, p := range key.Suppressed {
			line += " not " + p.Object.Name
		}
		got = append(got, line)
	}
	want := []string{"attributes[gpu.example.com/model] Added high not low", "capacity[x.io/only_low] Added high", "attributes[x.io/only_low] Added low"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWinningNullHidesLowerValue(t *testing.T) {
	ten := int64(10)
	r := apply(t, slice(device("a", names{"model": str("x")})),
		object("low", 0, spec{Attributes: attrs{model: set(str("low"))}}), object("high", 1, spec{Priority: &ten, Attributes: attrs{model: null}}))
	wantModels(t, r, "model", "-")
	wantModels(t, r, model, "-")
}

func TestFiltersSeeTheOriginalDevice(t *testing.T) {
	s := slice(device("a", names{"model": str("x")}))
	is := func(value string) *v1alpha1.DevicePatchFilter {
		return celOf(fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q`, value))
	}
	r := apply(t, s,
		object("first", 0, spec{Filter: is("x"), Attributes: attrs{model: set(str("y"))}}),
		object("second", 1, spec{Filter: is("y"), Attributes: attrs{"x.io/seen": set(str("patched"))}}),
		object("third", 2, spec{Filter: is("x"), Attributes: attrs{"x.io/also": set(str("original"))}}))
	wantModels(t, r, "x.io/seen", "-")
	wantModels(t, r, "x.io/also", "original")
}

func TestUnqualifiedKeyOfTheSliceIsReplacedInPlace(t *testing.T) {
	s := slice(resourceapi.Device{Name: "a", Attributes: names{"model": str("x")}, Capacity: sizes{"memory": size("1")}})
	r := apply(t, s, object("p", 0, spec{Attributes: attrs{model: set(str("y"))}, Capacity: caps{"gpu.example.com/memory": size("2")}}))
	want := resourceapi.Device{Name: "a", Attributes: names{"model": str("y")}, Capacity: sizes{"memory": size("2")}}
	if diff := cmp.Diff(want, r.Slice.Spec.Devices[0]); diff != "" {
		t.Error(diff)
	}
	for key := range r.Device(0) {
		if strings.Contains(string(key.Spelling), "/") {
			t.Errorf("%s is spelled %s", key.Name, key.Spelling)
		}
	}
}

func TestBothSpellingsInTheSlice(t *testing.T) {
	s := slice(resourceapi.Device{Name: "a",
		Attributes: names{"model": str("x"), model: str("z")},
		Capacity:   sizes{"memory": size("1"), "gpu.example.com/memory": size("3")}})
	r := apply(t, s, object("p", 0, spec{Attributes: attrs{model: set(str("x"))}, Capacity: caps{"gpu.example.com/memory": size("1")}}))
	want := resourceapi.Device{Name: "a", Attributes: names{"model": str("x")}, Capacity: sizes{"memory": size("1")}}
	if diff := cmp.Diff(want, r.Slice.Spec.Devices[0]); diff != "" {
		t.Error(diff)
	}
	r = apply(t, s, object("p", 0, spec{Attributes: attrs{model: null}}))
	if got := r.Slice.Spec.Devices[0].Attributes; len(got) > 0 {
		t.Errorf("null removes both, got %v", slices.Collect(maps.Keys(got)))
	}
}

func TestOtherDomainIsAnotherName(t *testing.T) {
	r := apply(t, slice(device("a", names{"model": str("x")})), object("p", 0, spec{Attributes: attrs{"other.example.com/model": set(str("y"))}}))
	wantModels(t, r, "model", "x")
	wantModels(t, r, "other.example.com/model", "y")
}

func TestNullOnMissingAttribute(t *testing.T) {
	s := slice(device("a", nil))
	r := apply(t, s, object("p", 0, spec{Attributes: attrs{model: null}}))
	if r.Slice != s || report(r, "p").Patched != 1 {
		t.Errorf("want no change, and the patch applied: %+v", report(r, "p"))
	}
}
