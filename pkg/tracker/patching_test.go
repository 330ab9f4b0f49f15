package tracker

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// color makes a patch that sets the attribute example.com/color.
func color(name, value string, selectors ...string) *v1alpha1.ResourceSlicePatch {
	return &v1alpha1.ResourceSlicePatch{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("patch-" + name), Generation: 1},
		Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
			Filter: &v1alpha1.DevicePatchFilter{Selectors: cel(selectors...)},
			Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{
				"example.com/color": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: &value}}},
		}},
	}
}

// TestPatchProvenance shows which patch decided.
func TestPatchProvenance(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{
		{SliceKind, "s"}: slice("s", "d", "p", "dev0", "dev1"),
		{PatchKind, "a"}: color("a", "red", isDev1),
		{PatchKind, "b"}: color("b", "blue", isDev1),
		{RuleKind, "r"}:  taintRule("r", selector("d", "", "")),
	})
	device, _ := s.current.Device("d", "p", "dev1")
	var got []string
	for key := range device.Patched() {
		got = append(got, fmt.Sprint(key.Name, " ", key.Effect, " by ", key.Winner.Object.Name, " not ", key.Suppressed[0].Object.Name))
	}
	if got := strings.Join(got, "; "); got != "attributes[example.com/color] Added by a not b" {
		t.Error(got)
	}
	if got := device.Merged(); *got.Attributes["example.com/color"].StringValue != "red" || len(got.Taints) != 1 {
		t.Errorf("%v", got)
	}
	device, _ = s.current.Device("d", "p", "dev0")
	for key := range device.Patched() {
		t.Errorf("dev0 is patched: %v", key.Name)
	}
	if len(device.Published().Attributes) != 1 || len(device.Merged().Taints) != 1 {
		t.Error("dev0 has what it should not")
	}
}

// TestStatusOfPatches: a write of the status compiles nothing and tells nobody.
func TestStatusOfPatches(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "dev1"), {PatchKind, "a"}: color("a", "red", isDev1)})
	compiled := s.patches.Get("a")
	written := color("a", "red", isDev1)
	written.Status.Conditions = []metav1.Condition{{Type: v1alpha1.PatchApplied}}
	if deltas := s.apply(map[objectKey]any{{PatchKind, "a"}: written}); len(deltas) != 0 || s.patches.Get("a") != compiled {
		t.Errorf("%d events", len(deltas))
	}
	if s.current.Patch("a") != written || s.current.Rule("a") != nil {
		t.Error("the snapshot has not the newest version")
	}
}

// TestOneEventForManyDevices: 10,000 devices of which one expression fails give one
// event, and one more for the next generation.
func TestOneEventForManyDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mutex sync.Mutex
		var events []PatchEvent
		tracker := New(Options{OnPatchEvent: func(e PatchEvent) {
			mutex.Lock()
			defer mutex.Unlock()
			events = append(events, e)
		}})
		var running sync.WaitGroup
		running.Go(func() {
			if err := tracker.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(running.Wait)
		bad := color("bad", "red", fails)
		put := func(p *v1alpha1.ResourceSlicePatch) { tracker.inbox.handler(PatchKind).OnAdd(p, false) }
		put(bad)
		for i := range 100 {
			devices := make([]string, 100)
			for j := range devices {
				devices[j] = "dev" + strconv.Itoa(j)
			}
			tracker.put(slice("s"+strconv.Itoa(i), "d", "p", devices...))
		}
		wait := func() []PatchEvent {
			<-time.After(time.Minute)
			synctest.Wait()
			mutex.Lock()
			defer mutex.Unlock()
			return events
		}
		got := wait()
		if len(got) != 1 || got[0].Devices != 10_000 || got[0].Reason != "CELError" || !strings.Contains(got[0].Message, "10000 devices") {
			t.Fatalf("%d events: %v", len(got), got)
		}
		for i := range 100 {
			changed := slice("s"+strconv.Itoa(i), "d", "p", "dev0")
			changed.ResourceVersion = "2"
			tracker.put(changed)
			synctest.Wait()
		}
		again := bad.DeepCopy()
		again.Generation = 2
		unknown := "none"
		again.Spec.Devices.Filter.DeviceClassName = &unknown
		if got := wait(); len(got) != 1 {
			t.Fatalf("%d events after the slices have changed", len(got))
		}
		put(again)
		if got := wait(); len(got) != 2 || got[1].Reason != "ClassNotFound" {
			t.Fatalf("%d events after the patch has changed: %v", len(got), got)
		}
		tracker.inbox.handler(PatchKind).OnDelete(again)
		if got := wait(); len(got) != 2 || len(tracker.Snapshot().PatchReports()) != 0 {
			t.Fatalf("%d events after the patch is gone", len(got))
		}
	})
}

// TestPatchReports counts slices and devices.
func TestPatchReports(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{
		{SliceKind, "s"}: slice("s", "d", "p", "dev0", "dev1"), {SliceKind, "t"}: slice("t", "d", "q", "dev1"),
		{PatchKind, "a"}: color("a", "red", isDev1), {PatchKind, "b"}: color("b", "red"),
	})
	var got []string
	for _, r := range s.current.PatchReports() {
		got = append(got, fmt.Sprint(r.Patch.Name, " ", r.Report.Slices, " ", r.Report.Devices, " ", r.Report.Conflicting()))
		for _, e := range r.events() {
			got = append(got, string(e.Reason), strconv.Itoa(e.Devices))
		}
	}
	if got := strings.Join(got, ", "); got != "a 2 2 false, b 2 3 true, Conflicting, 2" {
		t.Error(got)
	}
}
