package materialize_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/devices/slicemerge"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestRecovers: the driver has adopted the value of a patch and creates its slice again, while no
// webhook knows what it had said before, or only what was known before the patch changed. The
// controller does, and stores that with one touch. When the patch is deleted, the value goes, too.
func TestRecovers(t *testing.T) {
	for name, tt := range map[string]recovery{
		"the patch stays":                      {values: []string{"r1"}, then: "r1"},
		"the patch goes meanwhile":             {values: []string{"r1"}},
		"the patch changes meanwhile":          {values: []string{"r1"}, then: "r2"},
		"an older value is known":              {values: []string{"r1", "r2"}, copied: true, then: "r2"},
		"an older value is known, and no more": {values: []string{"r1", "r2"}, copied: true},
		"two older values":                     {values: []string{"r1", "r2"}, copied: true, then: "r3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, tt.test)
		})
	}
}

// TestRecoversNothingNew: a driver publishes the value of a patch for one device, together with another
// value of another device. The controller does not take that for a value that a webhook has forgotten.
func TestRecoversNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, pools := rackPatch("p", "r1", ""), &slicemerge.PoolOriginals{}
		webhook := merging(nil, p)
		stored := webhook.Merge(context.Background(), own(slice("s", "a", 2, 1), "own"), nil, time.Now(), accept).Slice
		pools.Learn(stored, time.Now())
		next := stored.DeepCopy()
		next.Spec.Devices = own(slice("s", "a", 2, 1), "own").Spec.Devices
		next.Spec.Devices[0].Attributes["dc.example.com/rack"] = resourceapi.DeviceAttribute{StringValue: ptr.To("r1")}
		next.Spec.Devices[1].Attributes["attribute_0"] = resourceapi.DeviceAttribute{StringValue: ptr.To("another")}
		stored = webhook.Merge(context.Background(), next, stored, time.Now(), accept).Slice
		pools.Learn(stored, time.Now())
		resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: viewOf(stored, p), Mode: slicemerge.Materialize, PoolOriginals: pools,
			Touch: func(_ context.Context, touch materialize.Touch) error {
				t.Errorf("touched: %+v", touch)
				return nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = resyncer.Run(ctx) }()
		<-time.After(10 * time.Second)
		cancel()
		synctest.Wait()
		if got := rack(merging(pools).Merge(context.Background(), stored, stored, time.Now(), accept).Slice); got != "r1" {
			t.Errorf("without the patch the device has the value %q, want r1: the driver publishes it", got)
		}
	})
}

type recovery struct {
	// values are those of the patch, of which the driver has adopted the last one. With copied, a webhook
	// that starts knows of the first one.
	values []string
	copied bool
	// then is the value while the driver creates its slice again, empty for no patch.
	then string
}

func (r recovery) test(t *testing.T) {
	var patches []*v1alpha1.ResourceSlicePatch
	set := func(value string) {
		if patches = nil; value != "" {
			patches = append(patches, rackPatch("p", value, ""))
		}
	}
	webhook := func(pools *slicemerge.PoolOriginals) *slicemerge.Merger {
		return slicemerge.NewMerger(slicemerge.Materialize, slicemerge.Patches{
			All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) }, Known: func() bool { return true },
		}, pools, nil, logr.Discard())
	}
	controller, copied := &slicemerge.PoolOriginals{}, &slicemerge.PoolOriginals{}
	published := slice("s", "a", 1, 1)
	var stored *resourceapi.ResourceSlice
	for i, value := range r.values {
		set(value)
		incoming := cmp.Or(stored, published)
		stored = webhook(nil).Merge(context.Background(), incoming, stored, time.Now(), accept).Slice
		controller.Learn(stored, time.Now())
		if i == 0 && r.copied {
			copied.Learn(stored, time.Now())
		}
	}
	adopted := stored.DeepCopy()
	adopted.Annotations = nil
	set(r.then)
	restarted := webhook(copied)
	stored = restarted.Merge(context.Background(), adopted, nil, time.Now(), accept).Slice
	stored.ResourceVersion = "7"
	controller.Learn(stored, time.Now())

	var mutex sync.Mutex // guards what follows
	var touches []materialize.Touch
	v := &view{}
	show := func() {
		objects := []any{stored}
		for _, p := range patches {
			objects = append(objects, p)
		}
		v.snapshot.Store(tracker.Merge(objects...))
	}
	show()
	resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: v, Mode: slicemerge.Materialize, PoolOriginals: controller,
		Touch: func(_ context.Context, touch materialize.Touch) error {
			mutex.Lock()
			defer mutex.Unlock()
			touches = append(touches, touch)
			sent := stored.DeepCopy()
			if touch.Record != "" {
				sent.Annotations = map[string]string{record.Annotation: touch.Record}
			}
			stored = restarted.Merge(context.Background(), sent, stored, time.Now(), accept).Slice
			controller.Learn(stored, time.Now())
			copied.Learn(stored, time.Now())
			show()
			return nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { _ = resyncer.Run(ctx) }()
	<-time.After(5 * time.Minute)
	cancel()
	synctest.Wait()
	if len(touches) != 1 || touches[0].Version != "7" || touches[0].Record == "" {
		t.Errorf("touches %+v, want one of version 7 with a record", touches)
	}
	if got := rack(stored); got != r.then {
		t.Errorf("the device has the value %q, want %q", got, r.then)
	}
	set("")
	if got := rack(webhook(nil).Merge(context.Background(), stored, stored, time.Now(), accept).Slice); got != "" {
		t.Errorf("without patches the device has the value %q, want none: the driver did not publish it", got)
	}
}
