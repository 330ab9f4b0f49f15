package view_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/scheduler/view"
)

func slice(name string, version int) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: int64(version)},
		Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: name}, Devices: []resourceapi.Device{
			{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"version": {IntValue: ptr.To(int64(version))}}},
			{Name: "b", Taints: []resourceapi.DeviceTaint{{Key: "example.com/repair", Effect: resourceapi.DeviceTaintEffectNoSchedule}}},
		}},
	}
}

func rack(name, value string, generation int64, class string) *v1alpha1.ResourceSlicePatch {
	object := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
	object.Spec.Devices.Filter = &v1alpha1.DevicePatchFilter{Device: ptr.To("a")}
	if class != "" {
		object.Spec.Devices.Filter.DeviceClassName = &class
	}
	object.Spec.Devices.Attributes = map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
		"dc.example.com/rack": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &value}},
	}
	return object
}

// Without patches the very slices come back, and with patches those that no patch touches.
func TestUntouched(t *testing.T) {
	published := []*resourceapi.ResourceSlice{slice("n1", 1)}
	var v view.View
	if got := v.List(published, time.Now()); &got[0] != &published[0] {
		t.Error("without patches the list must be the given one")
	}
	patch := rack("p", "r1", 1, "")
	patch.Spec.Devices.Filter.Driver = ptr.To("other.example.com")
	if !v.Put(patch, nil) {
		t.Error("a new patch is a change")
	}
	v.Rebuild(published, time.Now())
	if got := v.List(published, time.Now()); got[0] != published[0] {
		t.Error("a slice that no patch touches must be the published one")
	}
}

// Statuses of patches and unrelated fields of classes change nothing; the rest does.
func TestPut(t *testing.T) {
	class := func(expression, label string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"l": label}},
			Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}}}
	}
	var v view.View
	for i, step := range []struct {
		patch *v1alpha1.ResourceSlicePatch
		class *resourceapi.DeviceClass
		want  bool
	}{
		{rack("p", "r1", 1, "c"), nil, true},
		{rack("p", "r1", 1, "c"), nil, false},
		{rack("p", "r1", 1, "c"), class("true", "x"), true},
		{rack("p", "r1", 1, "c"), class("true", "y"), false},
		{rack("p", "r1", 1, "c"), class("false", "y"), true},
		{rack("p", "r2", 2, "c"), class("false", "y"), true},
	} {
		if got := v.Put(step.patch, step.class); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if !v.Delete("p") || v.Delete("p") {
		t.Error("a patch is deleted once")
	}
}

// Whatever happens, and in whatever order slices come, the view is what the tracker says.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var v view.View
		slices_, patches := map[string]*resourceapi.ResourceSlice{}, map[string]*v1alpha1.ResourceSlicePatch{}
		list := func() (all []*resourceapi.ResourceSlice) {
			for _, s := range slices_ { // in no order, like the informer's
				all = append(all, s)
			}
			return all
		}
		for step := range 60 {
			name := fmt.Sprint("n", random.IntN(5))
			switch random.IntN(6) {
			case 0:
				delete(slices_, name)
			case 1, 2:
				slices_[name] = slice(name, step)
			case 3:
				delete(patches, name)
				v.Delete(name)
				v.Rebuild(list(), time.Now())
			default:
				p := rack(name, fmt.Sprint("r", random.IntN(3)), int64(step), "")
				p.Spec.Devices.Priority = ptr.To(random.Int64N(3))
				patches[name] = p
				v.Put(p, nil)
				v.Rebuild(list(), time.Now())
			}
			var objects []any
			for _, s := range slices_ {
				objects = append(objects, s)
			}
			for _, p := range patches {
				objects = append(objects, p)
			}
			want := tracker.Merge(objects...)
			got := v.List(list(), time.Now())
			if len(got) != len(slices_) || v.Len() != len(patches) {
				t.Fatalf("seed %d step %d: %d slices, want %d", seed, step, len(got), len(slices_))
			}
			for _, s := range got {
				if !equality.Semantic.DeepEqual(s.Spec, want.Get(s.Name).Spec) {
					t.Fatalf("seed %d step %d: %s: got %v, want %v", seed, step, s.Name, s.Spec, want.Get(s.Name).Spec)
				}
			}
		}
	}
}

// Where patched values are written into slices, devices are what their drivers said with the
// patches of now: as if nothing was written, whichever patches were.
func TestWritten(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var v view.View
		v.Written(true)
		driver, stored := slice("n", 1), slice("n", 1)
		var last *v1alpha1.ResourceSlicePatch
		for step := range 40 {
			switch random.IntN(4) {
			case 0: // the driver publishes, with the record that it finds
				driver = slice("n", step)
				published := driver.DeepCopy()
				published.Annotations = stored.Annotations
				stored = published
			case 1: // what is written into slices lags behind
				written := map[string]*v1alpha1.ResourceSlicePatch{"p": last}
				if random.IntN(2) == 0 || last == nil {
					written = map[string]*v1alpha1.ResourceSlicePatch{"q": rack("q", "old", 1, "")}
				}
				stored = write(t, stored, written)
			case 2:
				last = nil
				v.Delete("p")
			default:
				last = rack("p", fmt.Sprint("r", random.IntN(3)), int64(step), "")
				v.Put(last, nil)
			}
			v.Rebuild([]*resourceapi.ResourceSlice{stored}, time.Now())
			objects := []any{driver}
			if last != nil {
				objects = append(objects, last)
			}
			want, got := tracker.Merge(objects...).Get("n"), v.List([]*resourceapi.ResourceSlice{stored}, time.Now())[0]
			if !equality.Semantic.DeepEqual(got.Spec, want.Spec) {
				t.Fatalf("seed %d step %d: got %v, want %v", seed, step, got.Spec, want.Spec)
			}
		}
		if !v.Written(false) || v.Written(false) {
			t.Error("that nothing is written is new once")
		}
		v.Delete("p")
		published := []*resourceapi.ResourceSlice{driver}
		if v.Rebuild(published, time.Now()); v.List(published, time.Now())[0] != driver {
			t.Error("then slices are what they are")
		}
	}
}

// write writes patches into a slice as the webhook does.
func write(t *testing.T, stored *resourceapi.ResourceSlice, patches map[string]*v1alpha1.ResourceSlicePatch) *resourceapi.ResourceSlice {
	t.Helper()
	var set patch.Set
	for _, p := range patches {
		set.Put(p, nil)
	}
	draft, err := record.Read(record.Write{Incoming: stored, Old: stored, Now: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	merged := draft.Merge(set.Apply(draft.Slice), nil)
	if merged.Refused != nil {
		t.Fatal(merged.Refused)
	}
	return merged.Slice
}

// List may be called while patches are worked in.
func TestConcurrently(t *testing.T) {
	var v view.View
	published := make([]*resourceapi.ResourceSlice, 50)
	for i := range published {
		published[i] = slice(fmt.Sprint("n", i), 1)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range int64(200) {
			v.Put(rack("p", fmt.Sprint("r", i), i+1, ""), nil)
			v.Rebuild(published, time.Now())
		}
	}()
	for i := 0; ; i++ {
		now := slices.Clone(published)
		now[i%len(now)] = slice(now[i%len(now)].Name, i)
		if got := v.List(now, time.Now()); len(got) != len(now) {
			t.Fatalf("%d slices", len(got))
		}
		select {
		case <-done:
			for _, s := range v.List(published, time.Now()) {
				if rack := s.Spec.Devices[0].Attributes["dc.example.com/rack"]; *rack.StringValue != "r199" {
					t.Fatalf("%s: %s", s.Name, *rack.StringValue)
				}
			}
			return
		default:
		}
	}
}
