package materialize_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize"
	"github.com/dra-steward/dra-steward/internal/controllers/materialize/record"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestRecovers: the driver has adopted the value of a patch and creates its slice again, while
// no webhook knows what it had said before. The controller does, and stores that with one touch.
// When the patch is deleted, the value goes, too.
func TestRecovers(t *testing.T) {
	for name, withPatch := range map[string]bool{"the patch stays": true, "the patch goes meanwhile": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testRecovers(t, withPatch) })
		})
	}
}

func testRecovers(t *testing.T, withPatch bool) {
	patches := []*v1alpha1.ResourceSlicePatch{rackPatch("p", "r1", "")}
	webhook := func(pools *materialize.PoolOriginals) *materialize.Merger {
		return materialize.NewMerger(materialize.Materialize, materialize.Patches{
			All: func() iter.Seq[*v1alpha1.ResourceSlicePatch] { return slices.Values(patches) }, Known: func() bool { return true },
		}, pools, nil, logr.Discard())
	}
	published := slice("s", "a", 1, 1)
	controller := &materialize.PoolOriginals{}
	controller.Learn(webhook(nil).Merge(published, nil, time.Now(), accept).Slice, time.Now())

	restarted := webhook(&materialize.PoolOriginals{})
	adopted := published.DeepCopy()
	adopted.Spec.Devices[0].Attributes["dc.example.com/rack"] = resourceapi.DeviceAttribute{StringValue: patches[0].Spec.Devices.Attributes["dc.example.com/rack"].StringValue}
	stored := restarted.Merge(adopted, nil, time.Now(), accept).Slice
	stored.ResourceVersion = "7"
	controller.Learn(stored, time.Now())
	if !withPatch {
		patches = nil
	}

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
	restarted = webhook(&materialize.PoolOriginals{})
	resyncer := materialize.NewResyncer(materialize.ResyncOptions{View: v, Mode: materialize.Materialize, PoolOriginals: controller,
		Touch: func(_ context.Context, touch materialize.Touch) error {
			mutex.Lock()
			defer mutex.Unlock()
			touches = append(touches, touch)
			sent := stored.DeepCopy()
			if touch.Record != "" {
				sent.Annotations = map[string]string{record.Annotation: touch.Record}
			}
			stored = restarted.Merge(sent, stored, time.Now(), accept).Slice
			controller.Learn(stored, time.Now())
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
	patches = nil
	if got := rack(webhook(nil).Merge(stored, stored, time.Now(), accept).Slice); got != "" {
		t.Errorf("without patches the device has the value %q, want none: the driver did not publish it", got)
	}
}
