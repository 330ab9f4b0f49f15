package materialize_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

func rackPatch(name, rack, expression string) *v1alpha1.ResourceSlicePatch {
	p := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if expression != "" {
		p.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}
	}
	p.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"dc.example.com/rack": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: ptr.To(rack)}},
	}
	return p
}

func slice(name, pool string, devices, attributes int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceSlice"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", AllNodes: ptr.To(true), Pool: resourceapi.ResourcePool{Name: pool, ResourceSliceCount: 1}}}
	for i := range devices {
		d := resourceapi.Device{Name: fmt.Sprintf("gpu-%d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
		for j := range attributes {
			d.Attributes[resourceapi.QualifiedName(fmt.Sprintf("attribute_%d", j))] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("value %d of %d", j, i))}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func rack(s *resourceapi.ResourceSlice) string {
	a := s.Spec.Devices[0].Attributes["dc.example.com/rack"]
	return ptr.Deref(a.StringValue, "")
}

func accept(_, _ *resourceapi.ResourceSlice) error { return nil }

// TestMerger: patches are merged once they are known, taken out in the other modes, and what
// a pool's driver said is remembered beyond its slice.
func TestMerger(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	known := false
	patches := []*v1alpha1.ResourceSlicePatch{rackPatch("p", "r1", "")}
	source := slicemerge.Patches{
		All:   func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) },
		Known: func() bool { return known }, Class: func(string) *resourceapi.DeviceClass { return nil },
	}
	pools := &slicemerge.PoolOriginals{}
	m := slicemerge.NewMerger(slicemerge.Materialize, source, pools, nil, logr.Discard())
	driver := slice("s", "a", 1, 1)
	driver.Spec.Devices[0].Attributes["dc.example.com/rack"] = resourceapi.DeviceAttribute{StringValue: ptr.To("own")}
	if got := m.Merge(context.Background(), driver, nil, now, accept); got.Slice.Annotations[record.Annotation] != "" || rack(got.Slice) != "own" {
		t.Errorf("patches that are not known yet: %v", got.Slice)
	}
	known = true
	stored := m.Merge(context.Background(), driver, nil, now, accept).Slice
	if rack(stored) != "r1" {
		t.Fatalf("stored: %s", rack(stored))
	}
	known = false
	if again := m.Merge(context.Background(), driver, stored, now, accept); rack(again.Slice) != "r1" {
		t.Errorf("what was in force has gone: %s", rack(again.Slice))
	}
	known = true
	pools.Learn(stored, now)
	patches = nil
	m.Handler().OnDelete(nil)
	again := slice("other", "a", 1, 1)
	again.Spec.Devices = stored.Spec.Devices
	if got := m.Merge(context.Background(), again, nil, now, accept); rack(got.Slice) != "own" {
		t.Errorf("a slice that the driver creates again: %s", rack(got.Slice))
	}
	none := slicemerge.NewMerger(slicemerge.None, slicemerge.Patches{}, nil, nil, logr.Discard())
	if got := none.Merge(context.Background(), stored, stored, now, accept); rack(got.Slice) != "own" {
		t.Errorf("switched off: %s", rack(got.Slice))
	}
	if got := none.Merge(context.Background(), driver, driver, now, accept); got.Slice != driver {
		t.Error("a slice without anything of ours is changed")
	}
	for mode, good := range map[slicemerge.Mode]bool{"": true, "none": true, "restore": true, "scheduler": false} {
		if (mode.Validate() == nil) != good {
			t.Errorf("mode %q", mode)
		}
	}
}

// TestKeepsWhatFits: while patches are not known, the driver publishes as many attributes as a device may
// have. The value in force is left out, and the driver can publish.
func TestKeepsWhatFits(t *testing.T) {
	known := true
	m := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
		All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] {
			return slices.Values([]*v1alpha1.ResourceSlicePatch{rackPatch("p", "r1", "")})
		},
		Known: func() bool { return known }, Class: func(string) *resourceapi.DeviceClass { return nil },
	}, nil, nil, logr.Discard())
	stored := m.Merge(context.Background(), slice("s", "a", 1, 31), nil, time.Now(), review.AcceptableSlice).Slice
	if rack(stored) != "r1" {
		t.Fatalf("stored: %q", rack(stored))
	}
	known = false
	merged := m.Merge(context.Background(), slice("s", "a", 1, 32), stored, time.Now(), review.AcceptableSlice)
	if n := len(merged.Slice.Spec.Devices[0].Attributes); n != 32 || merged.Refused == nil || rack(merged.Slice) != "" {
		t.Errorf("%d attributes, %q, refused: %v", n, rack(merged.Slice), merged.Refused)
	}
}

// TestMergerRemembers: what an expression said of a device does not outlive a change of it, a
// change of the patch, or a slice of that name of another driver.
func TestMergerRemembers(t *testing.T) {
	patches := []*v1alpha1.ResourceSlicePatch{rackPatch("p", "r1", `device.attributes["gpu.example.com"].attribute_0 == "one"`)}
	m := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
		All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) }, Known: func() bool { return true },
	}, nil, nil, logr.Discard())
	of := func(value, driver string) string {
		s := slice("s", "a", 2, 1)
		s.Spec.Driver = driver
		s.Spec.Devices[0].Attributes["attribute_0"] = resourceapi.DeviceAttribute{StringValue: &value}
		return rack(m.Merge(context.Background(), s, nil, time.Now(), accept).Slice)
	}
	for i, step := range []struct{ value, driver, want string }{
		{"one", "gpu.example.com", "r1"}, {"two", "gpu.example.com", ""}, {"one", "gpu.example.com", "r1"},
		{"one", "gpu.example.com", "r1"}, {"one", "other.example.com", ""}, {"one", "gpu.example.com", "r1"},
	} {
		if got := of(step.value, step.driver); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	patches = []*v1alpha1.ResourceSlicePatch{rackPatch("p", "r2", `device.attributes["gpu.example.com"].attribute_0 == "two"`)}
	m.Handler().OnUpdate(nil, nil)
	if one, two := of("one", "gpu.example.com"), of("two", "gpu.example.com"); one != "" || two != "r2" {
		t.Errorf("after a change of the patch: %q and %q", one, two)
	}
}

// TestMergerFollowsClasses: a DeviceClass that changes, comes or goes selects other devices for
// the patches that name it, without an event about them.
func TestMergerFollowsClasses(t *testing.T) {
	class, byClass := "c", rackPatch("p", "r1", "")
	byClass.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{DeviceClassName: &class}
	var now *resourceapi.DeviceClass
	m := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
		All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] {
			return slices.Values([]*v1alpha1.ResourceSlicePatch{byClass})
		},
		Known: func() bool { return true }, Class: func(string) *resourceapi.DeviceClass { return now },
	}, nil, nil, logr.Discard())
	for i, step := range []struct{ selects, want string }{{"", ""}, {"true", "r1"}, {"false", ""}, {"true", "r1"}, {"", ""}} {
		if now = nil; step.selects != "" {
			now = &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: resourceapi.DeviceClassSpec{
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: step.selects}}}}}
		}
		if got := rack(m.Merge(context.Background(), slice("s", "a", 1, 1), nil, time.Now(), accept).Slice); got != step.want {
			t.Errorf("step %d, the class selects %q: %q, want %q", i, step.selects, got, step.want)
		}
	}
}

type view struct {
	snapshot atomic.Pointer[tracker.Snapshot]
}

func viewOf(objects ...any) *view {
	v := &view{}
	v.snapshot.Store(tracker.Merge(objects...))
	return v
}

type done chan struct{}

func (d done) Name() string          { return "view" }
func (d done) Done() <-chan struct{} { return d }

func (v *view) Snapshot() *tracker.Snapshot { return v.snapshot.Load() }
func (v *view) HasSyncedChecker() cache.DoneChecker {
	d := make(done)
	close(d)
	return d
}

// TestResyncer: the slices of a pool are touched together, at a rate, less and less often
// while it does not help, and not at all once they are as they should be.
func TestResyncer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := rackPatch("p", "r1", "")
		objects := []any{p, slice("a-0", "a", 1, 1), slice("a-1", "a", 1, 1), slice("b-0", "b", 1, 1)}
		v := viewOf(objects...)
		var mutex sync.Mutex // guards calls
		var calls []string
		touched := func() []string {
			synctest.Wait()
			mutex.Lock()
			defer mutex.Unlock()
			return slices.Clone(calls)
		}
		start := time.Now()
		resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: v, Mode: slicemerge.Materialize, PoolsPerSecond: 1, Touch: func(_ context.Context, touch materialize.Touch) error {
			mutex.Lock()
			defer mutex.Unlock()
			calls = append(calls, fmt.Sprintf("%s at %s", touch.Slice, time.Since(start)))
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = resyncer.Run(ctx) }()
		<-time.After(2500 * time.Millisecond)
		if len(touched()) != 3 {
			t.Fatalf("touched %q", touched())
		}
		if s := resyncer.State(); s.Differing != 3 || s.Patch("p").Differing != 3 || s.Patch("q").Differing != 0 {
			t.Errorf("state %+v", s)
		}
		<-time.After(10 * time.Minute)
		if n := len(touched()); n > 3*20 {
			t.Errorf("%d touches in 10 minutes that do not help", n)
		}
		merger := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
			All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values([]*v1alpha1.ResourceSlicePatch{p}) }, Known: func() bool { return true },
		}, nil, nil, logr.Discard())
		for i, object := range objects {
			if s, is := object.(*resourceapi.ResourceSlice); is {
				objects[i] = merger.Merge(context.Background(), s, s, time.Now(), accept).Slice
			}
		}
		v.snapshot.Store(tracker.Merge(objects...))
		before := len(touched())
		<-time.After(5 * time.Minute)
		if got := touched(); len(got) != before {
			t.Errorf("touched although all is well: %q", got[before:])
		}
		if s := resyncer.State(); s.Differing != 0 || s.Slices != 3 || s.Patch("p").Differing != 0 {
			t.Errorf("state %+v", s)
		}
		cancel()
		synctest.Wait()
	})
}

// TestPartOfAPool: slices of a pool that the view shows one after the other are touched once.
func TestPartOfAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, first, second := rackPatch("p", "r1", ""), slice("a-0", "a", 1, 1), slice("a-1", "a", 1, 1)
		v := viewOf(p, first, second)
		calls := 0
		resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: v, Mode: slicemerge.Materialize,
			Touch: func(context.Context, materialize.Touch) error { calls++; return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = resyncer.Run(ctx) }()
		<-time.After(1500 * time.Millisecond)
		merged := func(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
			return merging(nil, p).Merge(context.Background(), s, s, time.Now(), accept).Slice
		}
		v.snapshot.Store(tracker.Merge(p, merged(first), second))
		<-time.After(time.Second)
		v.snapshot.Store(tracker.Merge(p, merged(first), merged(second)))
		<-time.After(time.Minute)
		cancel()
		synctest.Wait()
		if s := resyncer.State(); calls != 2 || s.Differing != 0 {
			t.Errorf("%d touches, want 2; state %+v", calls, s)
		}
	})
}

// stateOf is what a resyncer finds before it touches anything.
func stateOf(t *testing.T, mode slicemerge.Mode, objects ...any) *materialize.State {
	resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: viewOf(objects...), Mode: mode,
		Touch: func(context.Context, materialize.Touch) error { return nil }})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = resyncer.Run(ctx) }()
	<-time.After(500 * time.Millisecond)
	cancel()
	synctest.Wait()
	return resyncer.State()
}

// TestStateOfLists: a list is not written into slices. The state counts it apart from the values that
// slices should have, before and after these are written.
func TestStateOfLists(t *testing.T) {
	for _, merged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			lists, some := rackPatch("lists", "r1", ""), rackPatch("some", "r1", "")
			lists.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
				"dc.example.com/list": {DeviceAttribute: resourceapi.DeviceAttribute{IntValues: []int64{1, 2}}}}
			some.Spec.Devices.Attributes["dc.example.com/other"] = v1alpha1.NullableDeviceAttribute{DeviceAttribute: resourceapi.DeviceAttribute{IntValues: []int64{1}}}
			stored := slice("s", "a", 2, 1)
			if merged {
				stored = merging(nil, lists, some).Merge(context.Background(), stored, nil, time.Now(), accept).Slice
			}
			state := stateOf(t, slicemerge.Materialize, lists, some, stored)
			for name, values := range map[string]int{"lists": 0, "some": 2} {
				if got := state.Patch(name); got.Values != values || got.Blocked != 2 {
					t.Errorf("merged is %t: of %s, %d values are to be written and %d left out, want %d and 2", merged, name, got.Values, got.Blocked, values)
				}
			}
		})
	}
}

// TestStateStays: while nothing changes, the state stays, although slices lack a value for different reasons, or in
// devices of different names.
func TestStateStays(t *testing.T) {
	const list = "attributes[dc.example.com/list] in device gpu-0: NoLists"
	for _, want := range []materialize.PatchState{
		{Differing: 4, Blocked: 10, What: list, Values: 10},
		{Refused: 4, Why: "1 devices"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := rackPatch("p", "r1", "")
			p.Spec.Devices.Attributes["dc.example.com/list"] = v1alpha1.NullableDeviceAttribute{DeviceAttribute: resourceapi.DeviceAttribute{IntValues: []int64{1}}}
			objects := []any{p}
			for i := range 4 {
				objects = append(objects, slice(fmt.Sprint("s-", i), fmt.Sprint("pool-", i), i+1, 1))
			}
			resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: viewOf(objects...), Mode: slicemerge.Materialize,
				Touch: func(context.Context, materialize.Touch) error { return nil },
				Acceptable: func(slice, _ *resourceapi.ResourceSlice) error {
					if want.Refused == 0 {
						return nil
					}
					return fmt.Errorf("%d devices", len(slice.Spec.Devices))
				}})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = resyncer.Run(ctx) }()
			<-time.After(500 * time.Millisecond)
			first := resyncer.State()
			<-time.After(time.Minute)
			cancel()
			synctest.Wait()
			if last := resyncer.State(); last != first || first.Patch("p") != want {
				t.Errorf("first %+v, last %+v, want %+v", first.Patch("p"), last.Patch("p"), want)
			}
		})
	}
}

// TestStateOfRestore: in mode restore, and after the filter of a patch has changed, slices still have what they
// should not have.
func TestStateOfRestore(t *testing.T) {
	for mode, p := range map[slicemerge.Mode]*v1alpha1.ResourceSlicePatch{
		slicemerge.Restore: rackPatch("p", "r1", ""), slicemerge.Materialize: rackPatch("p", "r1", "false"),
	} {
		synctest.Test(t, func(t *testing.T) {
			stored := merging(nil, rackPatch("p", "r1", "")).Merge(context.Background(), slice("s", "a", 1, 1), nil, time.Now(), accept).Slice
			if got := stateOf(t, mode, p, stored).Patch("p"); got.Left != 1 || got.Differing != 0 {
				t.Errorf("%s: %d slices still have the patch and %d lack it, want 1 and 0", mode, got.Left, got.Differing)
			}
		})
	}
}

// TestElsewhere: nothing is touched while a scheduler applies patches, also not when that
// cannot be asked any more; a restore is not kept from its work.
func TestElsewhere(t *testing.T) {
	for _, mode := range []slicemerge.Mode{slicemerge.Materialize, slicemerge.Restore} {
		synctest.Test(t, func(t *testing.T) {
			stored := slice("s", "a", 1, 1)
			p := rackPatch("p", "r1", "")
			if mode == slicemerge.Restore { // a slice that still has a value of ours
				merger := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
					All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values([]*v1alpha1.ResourceSlicePatch{p}) }, Known: func() bool { return true },
				}, nil, nil, logr.Discard())
				stored = merger.Merge(context.Background(), stored, nil, time.Now(), accept).Slice
			}
			var mutex sync.Mutex // guards what follows
			said, broken, touches := "a scheduler does", error(nil), 0
			locked := func(do func()) {
				mutex.Lock()
				defer mutex.Unlock()
				do()
			}
			resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: viewOf(p, stored), Mode: mode,
				Touch: func(context.Context, materialize.Touch) error { locked(func() { touches++ }); return nil },
				Elsewhere: func(context.Context, time.Time) (name string, err error) {
					locked(func() { name, err = said, broken })
					return name, err
				}})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = resyncer.Run(ctx) }()
			<-time.After(10500 * time.Millisecond)
			locked(func() { said, broken = "", errors.New("no connection") })
			<-time.After(10 * time.Second)
			synctest.Wait()
			mutex.Lock()
			if state := resyncer.State(); mode == slicemerge.Materialize && (touches > 0 || state.Patch("p").Elsewhere == "" || state.Patch("q").Elsewhere == "") {
				t.Errorf("%d touches, %+v", touches, state)
			}
			mutex.Unlock()
			locked(func() { broken = nil })
			<-time.After(10 * time.Second)
			synctest.Wait()
			mutex.Lock()
			if state := resyncer.State(); touches == 0 || state.Patch("p").Elsewhere != "" {
				t.Errorf("%s: %d touches, %+v", mode, touches, state)
			}
			mutex.Unlock()
			cancel()
			synctest.Wait()
		})
	}
}

// TestDenied: the validating webhook admits what the mutating one has made of a slice. What a
// merged slice would be denied for is not merged, what draws a warning is.
func TestDenied(t *testing.T) {
	patches := []*v1alpha1.ResourceSlicePatch{rackPatch("p", "r1", "")}
	merger := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
		All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) }, Known: func() bool { return true },
	}, nil, nil, logr.Discard())
	for name, tt := range map[string]struct {
		limit    int
		severity v1alpha1.Severity
		want     string
	}{
		"within the limit of the site":   {2, "", "r1"},
		"beyond the limit":               {1, "", ""},
		"beyond a limit that only warns": {1, "warning", "r1"},
	} {
		t.Run(name, func(t *testing.T) {
			site := v1alpha1.StewardConfiguration{Limits: v1alpha1.Limits{AttributesAndCapacitiesPerDevice: tt.limit}}
			if tt.severity != "" {
				site.Rules = map[string]v1alpha1.Rule{"device-attributes-max": {Severity: tt.severity}}
			}
			reviewer, err := review.New(site)
			if err != nil {
				t.Fatal(err)
			}
			reviewer.InCluster, reviewer.Slices = true, merger
			driver, err := json.Marshal(slice("s", "a", 1, 1))
			if err != nil {
				t.Fatal(err)
			}
			request := review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: driver, Now: time.Now()}
			answer, err := reviewer.Mutate(request)
			if err != nil {
				t.Fatal(err)
			}
			request.Object = changed(t, driver, answer.Changes)
			if answer, err := reviewer.Validate(request); err != nil || answer.Denied() {
				t.Errorf("denied: %+v, %v", answer.Findings, err)
			}
			var stored resourceapi.ResourceSlice
			if err := json.Unmarshal(request.Object, &stored); err != nil || rack(&stored) != tt.want {
				t.Errorf("rack %q, %v, want %q", rack(&stored), err, tt.want)
			}
		})
	}
}

// changed is an object after the changes of an answer.
func changed(t *testing.T, object []byte, changes []mutate.Change) []byte {
	t.Helper()
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var operations []operation
	for _, change := range changes {
		operations = append(operations, operation{"add", change.Pointer, change.Value})
	}
	data, err := json.Marshal(operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		t.Fatal(err)
	}
	object, err = patch.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// BenchmarkWebhook is what the webhook does for a write of a full slice (128 devices with
// 30 attributes) that a patch changes: read the request, merge, answer. "off" is without
// patches. Each patch has an expression of its own and decides the same attribute. Those
// are evaluated again as for a slice that is new, unless it is "remembered" from the write
// before, of which all devices but one are the same.
func BenchmarkWebhook(b *testing.B) {
	driver := slice("s", "a", 128, 30)
	object, err := json.Marshal(driver)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{0, 1, 10, 100} {
		name := fmt.Sprintf("%d patches", n)
		reviewer := review.Reviewer{InCluster: true}
		old := object
		if n == 0 {
			name = "off"
		} else {
			var all []*v1alpha1.ResourceSlicePatch
			for i := range n {
				all = append(all, rackPatch(fmt.Sprint("p-", i), "r", fmt.Sprintf(`device.attributes["gpu.example.com"].attribute_1 != "%d"`, i)))
			}
			merger := slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
				All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(all) }, Known: func() bool { return true },
			}, nil, nil, logr.Discard())
			reviewer.Slices = merger
			if old, err = json.Marshal(merger.Merge(context.Background(), driver, nil, time.Now(), accept).Slice); err != nil {
				b.Fatal(err)
			}
		}
		write := func(b *testing.B, object []byte) {
			answer, err := reviewer.Mutate(review.Request{Kind: resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), Object: object, Old: old, Now: time.Now()})
			if err != nil || n > 0 && len(answer.Changes) < 128 {
				b.Fatal(err, len(answer.Changes))
			}
			if _, err := json.Marshal(answer.Changes); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				write(b, bytes.Replace(object, []byte(`"name":"s"`), fmt.Appendf(nil, `"name":"s-%d"`, i), 1))
			}
		})
		if n == 0 {
			continue
		}
		other := bytes.Replace(object, []byte("value 2 of 7"), []byte("another value"), 1)
		write(b, object)
		b.Run(name+" remembered", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				write(b, [][]byte{other, object}[i%2])
			}
		})
	}
}
