package patch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

const maxNames = resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice

// full returns n attributes a0, a1 and so on.
func full(n int) names {
	attributes := names{}
	for i := range n {
		attributes[resourceapi.QualifiedName(fmt.Sprintf("a%d", i))] = num(int64(i))
	}
	return attributes
}

func TestFullDevice(t *testing.T) {
	ten := int64(10)
	d := device("a", full(maxNames-1))
	d.Capacity = sizes{"memory": size("1")}
	low := object("low", 0, spec{Attributes: attrs{
		"gpu.example.com/a0": null, // makes room for one
		"gpu.example.com/a1": set(num(100)),
		"x.io/low":           set(str("low")),
	}})
	high := object("high", 1, spec{Priority: &ten, Attributes: attrs{"x.io/high": set(str("high"))}})
	r := apply(t, slice(d), low, high)
	got := r.Slice.Spec.Devices[0]
	want := full(maxNames - 1)
	delete(want, "a0")
	want["a1"], want["x.io/high"] = num(100), str("high")
	if diff := cmp.Diff(want, got.Attributes); diff != "" || len(got.Capacity) != 1 {
		t.Errorf("the removal and the replacement are done, the new name of the higher priority gets the room:\n%s", diff)
	}
	keys := report(r, "low").Keys()
	if len(keys) != 3 || keys[2].Name.Qualified != "x.io/low" || keys[2].Skipped != 1 {
		t.Errorf("want x.io/low skipped: %+v", keys)
	}
	if !conflicting(report(r, "low")) || conflicting(report(r, "high")) {
		t.Error("the skipped patch conflicts, the other does not")
	}
}

func TestCapacityCountsWithTheAttributes(t *testing.T) {
	r := apply(t, slice(device("a", full(maxNames-1))), object("p", 0, spec{
		Attributes: attrs{"x.io/a": set(str("y"))}, Capacity: caps{"x.io/c": size("1")}}))
	if got := r.Slice.Spec.Devices[0]; len(got.Attributes) != maxNames || len(got.Capacity) != 0 {
		t.Errorf("%d attributes and %d capacities", len(got.Attributes), len(got.Capacity))
	}
}

func TestValuesOfLists(t *testing.T) {
	list := func(n int) resourceapi.DeviceAttribute {
		return resourceapi.DeviceAttribute{IntValues: make([]int64, n)}
	}
	s := slice(device("a", names{"one": num(1), "many": list(40)}))
	r := apply(t, s, object("p", 0, spec{Attributes: attrs{
		"gpu.example.com/one": set(list(9)), // 1 + 40 becomes 49, one too many
		"x.io/new":            set(list(7)), // 41 + 7 fits
		"x.io/newer":          set(num(1)),
	}}))
	got := r.Slice.Spec.Devices[0].Attributes
	if got["one"].IntValue == nil || len(got["x.io/new"].IntValues) != 7 || len(got) != 3 {
		t.Errorf("one stays, new fits, newer does not: %v", got)
	}
}

func TestListInACrowdedSlice(t *testing.T) {
	var devices []resourceapi.Device
	for i := range resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures + 1 {
		devices = append(devices, device(fmt.Sprint("d", i), names{"one": num(1)}))
	}
	list := set(resourceapi.DeviceAttribute{BoolValues: []bool{true}})
	p := object("p", 0, spec{Attributes: attrs{"gpu.example.com/one": list, "x.io/list": list}})
	if r := apply(t, slice(devices...), p); r.Slice != r.Published || !conflicting(report(r, "p")) {
		t.Error("a slice of more than 64 devices can have no lists")
	}
	if r := apply(t, slice(devices[1:]...), p); len(r.Slice.Spec.Devices[0].Attributes["one"].BoolValues) != 1 {
		t.Error("a slice of 64 devices can")
	}
}

func TestOtherTypeIsReplacedAndReported(t *testing.T) {
	r := apply(t, slice(device("a", names{"model": str("x"), "n": num(1)})),
		object("p", 0, spec{Attributes: attrs{model: set(num(7)), "gpu.example.com/n": set(resourceapi.DeviceAttribute{IntValues: []int64{1, 2}})}}))
	got := r.Slice.Spec.Devices[0].Attributes
	if *got["model"].IntValue != 7 || len(got["n"].IntValues) != 2 {
		t.Errorf("%v", got)
	}
	for _, key := range report(r, "p").Keys() {
		if key.TypeChanged != 1 {
			t.Errorf("%+v, want the type changed", key)
		}
	}
}

func TestCapacityKeepsThePolicy(t *testing.T) {
	shared, quantity := true, func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	policy := &resourceapi.CapacityRequestPolicy{Default: quantity("2Gi"), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: quantity("1Gi")}}
	own := &resourceapi.CapacityRequestPolicy{Default: quantity("1")}
	published := func(shared *bool) *resourceapi.ResourceSlice {
		return slice(resourceapi.Device{Name: "a", AllowMultipleAllocations: shared,
			Capacity: sizes{"memory": {Value: resource.MustParse("8Gi"), RequestPolicy: policy}}})
	}
	for name, tc := range map[string]struct {
		shared            *bool
		capacity          resourceapi.DeviceCapacity
		policy            *resourceapi.CapacityRequestPolicy
		violated, dropped int
	}{
		"value only":        {&shared, size("4Gi"), policy, 0, 0},
		"below the default": {&shared, size("1536Mi"), policy, 1, 0},
		"own policy":        {&shared, resourceapi.DeviceCapacity{Value: resource.MustParse("4Gi"), RequestPolicy: own}, own, 0, 0},
		"policy, unshared":  {nil, resourceapi.DeviceCapacity{Value: resource.MustParse("4Gi"), RequestPolicy: own}, policy, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := apply(t, published(tc.shared), object("p", 0, spec{Capacity: caps{"gpu.example.com/memory": tc.capacity}}))
			got := r.Slice.Spec.Devices[0].Capacity["memory"]
			if got.RequestPolicy != tc.policy && !reflect.DeepEqual(got.RequestPolicy, tc.policy) || got.Value.Cmp(tc.capacity.Value) != 0 {
				t.Errorf("got %v", got)
			}
			if key := report(r, "p").Keys()[0]; key.PolicyViolated != tc.violated || key.PolicyDropped != tc.dropped {
				t.Errorf("%+v", key)
			}
		})
	}
}

func TestMissingClassMatchesNothing(t *testing.T) {
	name := "gpu"
	o := object("p", 0, spec{Filter: &v1alpha1.DevicePatchFilter{DeviceClassName: &name}, Attributes: attrs{model: set(str("y"))}})
	s := slice(device("a", names{"n": num(1)}), device("b", names{"n": num(2)}))
	var c Compiler
	p := c.Compile(o, nil)
	if r := Apply(s, []*Patch{p}); r.Slice != s || len(p.Problems) != 1 || p.Problems[0].Reason != ClassNotFound {
		t.Errorf("%+v", p.Problems)
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p = c.Compile(o, class)
	wantModels(t, Apply(s, []*Patch{p}), model, "y y")
	class.Spec.Selectors = celOf(`device.attributes["gpu.example.com"].n == 2`).Selectors
	p = c.Compile(o, class)
	wantModels(t, Apply(s, []*Patch{p}), model, "- y")
	class.Spec.Selectors = celOf(`nonsense`).Selectors
	p = c.Compile(o, class)
	if r := Apply(s, []*Patch{p}); r.Slice != s || !strings.Contains(p.Problems[0].Message, "DeviceClass gpu: spec.selectors[0].cel.expression: compilation failed") {
		t.Errorf("%+v", p.Problems)
	}
}

func TestCompileErrorIgnoresTheWholePatch(t *testing.T) {
	patches := compile(object("p", 0, spec{Filter: celOf("true", "device.nonsense"), Attributes: attrs{model: set(str("y"))}}))
	s := slice(device("a", nil))
	if r := Apply(s, patches); r.Slice != s {
		t.Error("the patch was applied")
	}
	if got := patches[0].Problems; len(got) != 1 || got[0].Reason != CELError || !strings.Contains(got[0].Message, "spec.devices.filter.selectors[1].cel.expression: ") {
		t.Errorf("%+v", got)
	}
	patches = compile(object("p", 0, spec{Filter: &v1alpha1.DevicePatchFilter{Selectors: make([]resourceapi.DeviceSelector, 1)}, Attributes: attrs{model: set(str("y"))}}))
	if r := Apply(s, patches); r.Slice != s || patches[0].Problems[0].Reason != CELError {
		t.Errorf("a selector of an unknown form: %+v", patches[0].Problems)
	}
}

// The costs of these are about 50,000 and 560,000.
const (
	costly     = `[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4].all(e, a + b + c + e > 0))))`
	verycostly = `[1,2,3,4,5,6,7,8,9,10].all(f, ` + costly + `)`
)

// TestCostIsLimited holds that the cost of all devices of a slice is bounded, and that beyond
// the bound a patch changes nothing in the slice, while others do.
func TestCostIsLimited(t *testing.T) {
	one, many := slice(device("a", nil)), slice(device("a", nil), device("b", nil), device("c", nil), device("d", nil), device("e", nil), device("f", nil))
	wantModels(t, apply(t, one, object("p", 0, spec{Filter: celOf(costly), Attributes: attrs{model: set(str("y"))}})), model, "y")
	for name, filter := range map[string]struct {
		slice  *resourceapi.ResourceSlice
		filter *v1alpha1.DevicePatchFilter
	}{
		"of many devices": {many, celOf(costly)}, "of several expressions": {one, celOf(costly, costly, costly, costly, costly, costly)},
		"of one expression": {one, celOf(verycostly)}, "of one that fails": {many, celOf("!(" + costly + ") || device.attributes['x'].y == 1")},
		"of a part": {many, celOf("device.driver == 'other' || " + costly)},
	} {
		r := apply(t, filter.slice, object("p", 1, spec{Filter: filter.filter, Attributes: attrs{model: set(str("y"))}}),
			object("q", 0, spec{Attributes: attrs{model: set(str("q"))}}))
		got := report(r, "p").Failures
		if !got.Expensive || got.Devices != len(filter.slice.Spec.Devices) || !strings.Contains(got.First, "ResourceSlice slice: too expensive: the expressions cost more than 100000") {
			t.Errorf("%s: got %+v", name, got)
		}
		for i := range filter.slice.Spec.Devices {
			if got := r.Slice.Spec.Devices[i].Attributes[model].StringValue; got == nil || *got != "q" {
				t.Errorf("%s: the other patch does not apply: %v", name, got)
			}
		}
	}
}

// TestLimitOfAnEvaluation holds that an evaluation that is limited goes on where it ended, and
// that one whose context ends has no result.
func TestLimitOfAnEvaluation(t *testing.T) {
	s := slice(device("a", nil), device("b", nil), device("c", nil))
	p := compile(object("p", 0, spec{Filter: celOf("device.driver != ''"), Attributes: attrs{model: set(str("y"))}}))
	e, ended := NewEvaluation(s), uint64(0)
	for range s.Spec.Devices {
		e.Limit = e.Spent() + 1
		r, err := e.Apply(t.Context(), p)
		if e.Limit > e.Spent() || e.Spent() > ended+MaxCost {
			t.Errorf("spent %d, before %d", e.Spent(), ended)
		}
		if ended = e.Spent(); err == nil {
			wantModels(t, r, model, "y y y")
		} else if !errors.Is(err, ErrUnfinished) {
			t.Error(err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewEvaluation(s).Apply(canceled, p); !errors.Is(err, context.Canceled) {
		t.Errorf("got the error %v", err)
	}
}

// TestSetForgetsResults holds that the memory of results is bounded, and that the result of
// what was forgotten is the same.
func TestSetForgetsResults(t *testing.T) {
	results := Set{results: results{most: 10 << 10}}
	results.Put(object("p", 0, spec{Filter: celOf("device.attributes['x'].y == 1"), Attributes: attrs{model: set(str("y"))}}), nil)
	first, devices := slice(device("a", nil)), make([]resourceapi.Device, 128)
	before := results.Apply(first)
	for i := range devices {
		devices[i] = device(fmt.Sprint("d", i), nil)
	}
	for i := range 100 {
		s := slice(devices...)
		s.Name = fmt.Sprint("s", i)
		results.Apply(s)
	}
	sum := 0
	for _, e := range results.evaluations {
		sum += e.bytes()
	}
	if results.bytes != sum || sum > results.most {
		t.Errorf("%d bytes are counted of %d", results.bytes, sum)
	}
	after := results.Apply(first)
	if before.Matches()[0].Failures != after.Matches()[0].Failures {
		t.Errorf("got %+v, then %+v", before.Matches()[0].Failures, after.Matches()[0].Failures)
	}
}

func matchOf(p *Patch, e *Evaluation) Match {
	m, _ := p.match(context.Background(), e)
	return m
}

func TestOlderGenerationIsPatchedToo(t *testing.T) {
	s := slice(device("a", nil))
	s.Spec.Pool.Generation = 1
	s.Spec.Pool.ResourceSliceCount = 7
	wantModels(t, apply(t, s, object("p", 0, spec{Attributes: attrs{model: set(str("y"))}})), model, "y")
}

func TestOnlyAttributesAndCapacityArePatched(t *testing.T) {
	shared, node := true, "node"
	d := resourceapi.Device{Name: "a", AllowMultipleAllocations: &shared, NodeName: &node,
		Taints:           []resourceapi.DeviceTaint{{Key: "k", Effect: resourceapi.DeviceTaintEffectNoExecute}},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "set"}}}
	s := slice(d)
	s.ResourceVersion = "7"
	r := apply(t, s, object("p", 0, spec{Attributes: attrs{model: set(str("y"))}, Capacity: caps{"x.io/c": size("1")}}))
	got := r.Slice.DeepCopy()
	got.Spec.Devices[0].Attributes, got.Spec.Devices[0].Capacity = nil, nil
	if diff := cmp.Diff(s, got); diff != "" {
		t.Error(diff)
	}
}

func TestTenThousandFailuresAreOneReport(t *testing.T) {
	p := compile(object("p", 0, spec{Filter: celOf(`device.attributes["gpu.example.com"].none`), Attributes: attrs{model: set(str("y"))}}))
	var total Summary
	for i := range 100 {
		var devices []resourceapi.Device
		for j := range 100 {
			devices = append(devices, device(fmt.Sprint("d", j), nil))
		}
		s := slice(devices...)
		s.Name = fmt.Sprintf("slice-%02d", 99-i)
		total.Add(Apply(s, p).Reports()[p[0]])
	}
	if total.Failures.Devices != 10000 || !strings.HasPrefix(total.Failures.First, "device d0 of ResourceSlice slice-00: ") || len(total.Keys()) != 0 {
		t.Errorf("%+v", total)
	}
}

func TestUnknownValuesAreLeftOut(t *testing.T) {
	long, wrong := strings.Repeat("x", 65), "12.4"
	ok := "12.4.0-rc.1+build"
	patches := compile(object("p", 0, spec{Attributes: attrs{
		"x.io/nothing": {},
		"x.io/two":     {DeviceAttribute: resourceapi.DeviceAttribute{IntValue: new(int64), BoolValue: new(bool)}},
		"x.io/both":    {DeviceAttribute: num(1), NullValue: &v1alpha1.NullValue{}},
		"x.io/long":    set(str(long)),
		"x.io/version": set(resourceapi.DeviceAttribute{VersionValue: &wrong}),
		"x.io/empty":   set(resourceapi.DeviceAttribute{IntValues: []int64{}}),
		"x.io/lists":   set(resourceapi.DeviceAttribute{VersionValues: []string{ok, wrong}}),
		"x.io/fine":    set(resourceapi.DeviceAttribute{VersionValue: &ok}),
		"X.io/upper":   set(num(1)),
		"x.io/a/b":     set(num(1)),
	}}))
	r := Apply(slice(device("a", nil)), patches)
	if got := r.Slice.Spec.Devices[0].Attributes; len(got) != 1 || got["x.io/fine"].VersionValue == nil {
		t.Errorf("got %v", got)
	}
	if got := len(patches[0].Problems); got != 9 {
		t.Errorf("%d problems, want 9", got)
	}
	for _, problem := range patches[0].Problems {
		if problem.Reason != InvalidValue || problem.Name == "" || !strings.HasPrefix(problem.Message, "spec.devices.attributes[") {
			t.Errorf("%+v", problem)
		}
	}
}

// TestInvalidCapacitiesAreLeftOut: kube-scheduler divides by a step, and fails at a negative amount.
func TestInvalidCapacitiesAreLeftOut(t *testing.T) {
	q := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	policed := func(policy resourceapi.CapacityRequestPolicy) resourceapi.DeviceCapacity {
		return resourceapi.DeviceCapacity{Value: resource.MustParse("80Gi"), RequestPolicy: &policy}
	}
	ranged := func(span resourceapi.CapacityRequestPolicyRange) resourceapi.DeviceCapacity {
		return policed(resourceapi.CapacityRequestPolicy{Default: q("10Gi"), ValidRange: &span})
	}
	for name, tt := range map[string]struct {
		capacity resourceapi.DeviceCapacity
		problem  string
	}{
		"zero":             {size("0"), ""},
		"negative":         {size("-2Gi"), "negative"},
		"negative default": {policed(resourceapi.CapacityRequestPolicy{Default: q("-1")}), "negative"},
		"negative value":   {policed(resourceapi.CapacityRequestPolicy{Default: q("1"), ValidValues: []resource.Quantity{*q("-1"), *q("1")}}), "negative"},
		"range":            {ranged(resourceapi.CapacityRequestPolicyRange{Min: q("10Gi"), Max: q("80Gi"), Step: q("10Gi")}), ""},
		"step of 1m":       {ranged(resourceapi.CapacityRequestPolicyRange{Min: q("10Gi"), Step: q("1m")}), ""},
		"step of 0":        {ranged(resourceapi.CapacityRequestPolicyRange{Min: q("10Gi"), Step: q("0")}), "step"},
		"step of 10^64":    {ranged(resourceapi.CapacityRequestPolicyRange{Min: q("10Gi"), Step: q("1e64")}), "step"},
		"negative min":     {ranged(resourceapi.CapacityRequestPolicyRange{Min: q("-1")}), "negative"},
		"no min":           {ranged(resourceapi.CapacityRequestPolicyRange{Step: q("1Gi")}), "min"},
	} {
		t.Run(name, func(t *testing.T) {
			p := compile(object("p", 0, spec{Capacity: caps{"gpu.example.com/memory": tt.capacity, "gpu.example.com/cores": size("8")}}))
			got := Apply(slice(device("a", nil)), p).Slice.Spec.Devices[0].Capacity
			if _, set := got["gpu.example.com/memory"]; set != (tt.problem == "") || len(got) == 0 {
				t.Errorf("got %v", got)
			}
			switch problems := p[0].Problems; {
			case tt.problem == "" && len(problems) > 0:
				t.Errorf("problems %v", problems)
			case tt.problem != "" && (len(problems) != 1 || problems[0].Reason != InvalidValue || !strings.Contains(problems[0].Message, tt.problem)):
				t.Errorf("problems %v, want one about %s", problems, tt.problem)
			}
		})
	}
}

func TestNextKeepsWhatIsKnown(t *testing.T) {
	p := compile(object("p", 0, spec{Filter: celOf(`device.attributes["gpu.example.com"].n == 1`)}))[0]
	s := slice(device("a", names{"n": num(1)}), device("b", names{"n": num(2)}), device("c", nil))
	e := NewEvaluation(s)
	matchOf(p, e)
	s = slice(device("c", nil), device("b", names{"n": num(1)}), device("new", names{"n": num(1)}), device("a", names{"n": num(1)}))
	got, want := matchOf(p, e.Next(s)), matchOf(p, NewEvaluation(s))
	if !reflect.DeepEqual(got, want) || want.Devices != 3 || want.Failures.Devices != 1 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var none *Evaluation
	if got := matchOf(p, none.Next(s)); !reflect.DeepEqual(got, want) {
		t.Errorf("from none: %+v", got)
	}
}
