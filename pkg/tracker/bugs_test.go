package tracker

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// The tests of this file are named after the findings in upstream's tracker, v0.37.0.

// started is a tracker without informers whose inbox the test fills.
func started(t *testing.T) *Tracker {
	t.Helper()
	tracker := New(Options{})
	var running sync.WaitGroup
	running.Go(func() {
		if err := tracker.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(running.Wait)
	<-tracker.HasSyncedChecker().Done()
	return tracker
}

func (t *Tracker) put(object any) {
	switch object := object.(type) {
	case *resourceapi.ResourceSlice:
		t.inbox.handler(SliceKind).OnAdd(object, false)
	case *resourceapi.DeviceTaintRule:
		t.inbox.handler(RuleKind).OnAdd(object, false)
	case *v1alpha1.ResourceSlicePatch:
		t.inbox.handler(PatchKind).OnAdd(object, false)
	}
}

func flush(t *testing.T, tracker *Tracker) {
	t.Helper()
	if err := tracker.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Bug 1: a rule without a selector taints all devices.
func TestBug1RuleWithoutSelector(t *testing.T) {
	tracker := started(t)
	tracker.put(slice("s", "d", "p", "dev"))
	tracker.put(taintRule("none", nil))
	tracker.put(taintRule("all", &resourceapi.DeviceTaintSelector{}))
	flush(t, tracker)
	device, ok := tracker.Snapshot().Device("d", "p", "dev")
	if !ok || len(device.Taints()) != 1 || device.Taints()[0].Source.Name != "all" {
		t.Errorf("taints are %v, want that of the empty selector only", device.Taints())
	}
}

// Bug 2: a panic when a rule changes while a slice with more devices is in the store.
func TestBug2MoreDevicesWhileARuleChanges(t *testing.T) {
	for _, ruleFirst := range []bool{true, false} {
		s := newState()
		s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "dev0"), {RuleKind, "r"}: taintRule("r", selector("d", "", ""))})
		more := slice("s", "d", "p", "dev0", "dev1", "dev2")
		more.ResourceVersion = "2"
		changed := taintRule("r", selector("d", "p", ""))
		steps := []map[objectKey]any{{{SliceKind, "s"}: more}, {{RuleKind, "r"}: changed}}
		if ruleFirst {
			steps[0], steps[1] = steps[1], steps[0]
		}
		for _, step := range steps {
			s.apply(step)
		}
		check(t, s.current, map[objectKey]any{{SliceKind, "s"}: more, {RuleKind, "r"}: changed})
	}
}

// Bug 3: of two goroutines that compute one slice, the older result stays. Here rules
// and slices change at the same time, and each round ends with a recomputation.
func TestBug3OverlappingChanges(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1000
	}
	tracker := started(t)
	for round := range rounds {
		version := strconv.Itoa(round)
		changed := slice("s", "d", "p", "dev0", "dev"+version)
		changed.ResourceVersion = version
		rule := taintRule("r", selector("d", "", ""))
		rule.Spec.Taint.Value = version
		gone := round%3 == 0
		var both sync.WaitGroup
		both.Go(func() { tracker.put(changed) })
		both.Go(func() {
			if tracker.put(rule); gone {
				tracker.inbox.handler(RuleKind).OnDelete(rule)
			}
		})
		both.Wait()
		flush(t, tracker)
		objects := map[objectKey]any{{SliceKind, "s"}: changed, {RuleKind, "r"}: rule}
		if gone {
			delete(objects, objectKey{RuleKind, "r"})
		}
		if got, want := tracker.Snapshot().Get("s"), naive(objects)["s"]; len(got.Spec.Devices) != 2 ||
			len(got.Spec.Devices[1].Taints) != len(want.Spec.Devices[1].Taints) || got.Spec.Devices[1].Name != "dev"+version ||
			!gone && got.Spec.Devices[1].Taints[0].Value != version {
			t.Fatalf("round %d is lost", round)
		}
	}
}

// recorder records the events that it receives.
type recorder struct {
	mutex  sync.Mutex
	events []string
}

func (r *recorder) note(format string, args ...any) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) all() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return strings.Join(r.events, " ")
}

func (r *recorder) OnAdd(object any, initial bool) {
	r.note("add(%s,%d,%t)", object.(*resourceapi.ResourceSlice).Name, nTaints(object), initial)
}
func (r *recorder) OnUpdate(old, changed any) {
	r.note("update(%s,%d,%d)", changed.(*resourceapi.ResourceSlice).Name, nTaints(old), nTaints(changed))
}
func (r *recorder) OnDelete(object any) {
	r.note("delete(%s,%d)", object.(*resourceapi.ResourceSlice).Name, nTaints(object))
}

func nTaints(object any) (n int) {
	for _, device := range object.(*resourceapi.ResourceSlice).Spec.Devices {
		n += len(device.Taints)
	}
	return n
}

// Bug 4: a slice that is deleted while a rule changes gives an event without object.
func TestBug4DeletedWhileARuleChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		var events recorder
		tracker.AddEventHandler(&events)
		s := slice("s", "d", "p", "dev")
		tracker.put(s)
		synctest.Wait()
		tracker.inbox.handler(SliceKind).OnDelete(s)
		tracker.put(taintRule("r", selector("d", "", "")))
		synctest.Wait()
		tracker.inbox.handler(SliceKind).OnDelete(s) // a second time
		synctest.Wait()
		if got := events.all(); got != "add(s,0,false) delete(s,0)" {
			t.Error(got)
		}
	})
}

// Bug 5: the order of taints differs between runs.
func TestBug5OrderOfTaints(t *testing.T) {
	orders := map[string]bool{}
	for range 50 {
		s := newState()
		batch := map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "dev")}
		for _, name := range []string{"r3", "r1", "r4", "r2"} {
			batch[objectKey{RuleKind, name}] = taintRule(name, selector("d", "", ""))
		}
		s.apply(batch)
		orders[text(t, s.current.Get("s").Spec.Devices[0].Taints)] = true
	}
	if len(orders) != 1 {
		t.Errorf("%d orders in 50 runs", len(orders))
	}
}

// Bug 6: writes of the status of a rule wake every handler.
func TestBug6StatusOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		tracker.put(slice("s", "d", "p", "dev"))
		for i := range 6 {
			tracker.put(taintRule("r"+strconv.Itoa(i), selector("d", "", "")))
		}
		synctest.Wait()
		var events recorder
		tracker.AddEventHandler(&events)
		for i := range 100 {
			written := taintRule("r3", selector("d", "", ""))
			written.ResourceVersion = strconv.Itoa(i)
			written.Status.Conditions = nil
			tracker.put(written)
			synctest.Wait()
		}
		if got := events.all(); got != "add(s,6,true)" {
			t.Errorf("100 writes of a status gave: %s", got)
		}
		if got := tracker.Snapshot().Rule("r3").ResourceVersion; got != "99" {
			t.Errorf("the rule has version %s, want the last one", got)
		}
	})
}

// Bug 7: taints are compared by the position of the device, whatever its name is.
func TestBug7DevicesChangePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		var events recorder
		tracker.AddEventHandler(&events)
		tracker.put(slice("s", "d", "p", "a", "b"))
		tracker.put(taintRule("r", selector("", "", "a")))
		synctest.Wait()
		tracker.put(slice("s", "d", "p", "b", "a"))
		synctest.Wait()
		if got := events.all(); got != "add(s,1,false) update(s,1,1)" {
			t.Error(got)
		}
		if device, _ := tracker.Snapshot().Device("d", "p", "b"); len(device.Taints()) != 0 {
			t.Error("the taint is on the wrong device")
		}
	})
	// By positions nothing changes, by names everything does.
	s := newState()
	s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "a", "b"), {RuleKind, "r"}: taintRule("r", selector("", "", "a"))})
	if visible := s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "b", "a"), {RuleKind, "r"}: taintRule("r", selector("", "", "b"))}); len(visible) != 1 {
		t.Errorf("%d events, want one", len(visible))
	}
}

// Bug 7, second part: the deletion of a rule that was missed recomputes all slices.
func TestBug7MissedDeletion(t *testing.T) {
	s := newState()
	batch := map[objectKey]any{{RuleKind, "r"}: taintRule("r", selector("", "pool3", ""))}
	for i := range 10 {
		name := strconv.Itoa(i)
		batch[objectKey{SliceKind, name}] = slice(name, "d", "pool"+name, "dev")
	}
	s.apply(batch)
	before := s.current
	w := &work{dirty: map[*entry]bool{}, budget: 1000}
	s.changeRule(w, "r", nil)
	if len(w.dirty) != 1 || w.budget < 0 {
		t.Errorf("%d slices are looked at, budget %d; want that of pool3", len(w.dirty), w.budget)
	}
	s.changeRule(w, "r", batch[objectKey{RuleKind, "r"}].(*resourceapi.DeviceTaintRule))
	box := newInbox()
	box.handler(RuleKind).OnDelete(cache.DeletedFinalStateUnknown{Key: "r"})
	batch, _ = box.take()
	if deltas := s.apply(batch); len(deltas) != 1 || deltas[0].name() != "3" {
		t.Errorf("%d slices have changed, want that of pool3", len(deltas))
	}
	for e := range before.slices.all() {
		if now, _ := s.current.slices.get(e.key()); (now != e) != (e.key() == "3") {
			t.Errorf("slice %s was computed again: %t", e.key(), now != e)
		}
	}
}

// Bug 7, third part: handlers cannot be removed.
func TestBug7RemovedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		var removed, stays recorder
		handle := tracker.AddEventHandler(&removed)
		tracker.AddEventHandler(&stays)
		tracker.put(slice("s", "d", "p"))
		synctest.Wait()
		tracker.RemoveEventHandler(handle)
		tracker.RemoveEventHandler(handle) // a second time
		tracker.put(slice("t", "d", "p"))
		synctest.Wait()
		if removed.all() != "add(s,0,false)" || stays.all() != "add(s,0,false) add(t,0,false)" {
			t.Errorf("the removed one was told %q, the other one %q", removed.all(), stays.all())
		}
	})
}

// Bug 8: something of the time when it wrote events is still started. Here Run leaves
// nothing behind; synctest fails with a goroutine that goes on.
func TestBug8NothingGoesOn(t *testing.T) {
	before := runtime.NumGoroutine()
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		handle := tracker.AddEventHandler(&recorder{})
		tracker.AddEventHandler(&recorder{})
		tracker.put(slice("s", "d", "p"))
		synctest.Wait()
		tracker.RemoveEventHandler(handle)
	})
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// TestRecreatedRule: a rule that is deleted and created again with the same content, both in
// one batch, is the source of its taints by its new UID.
func TestRecreatedRule(t *testing.T) {
	s := newState()
	s.apply(map[objectKey]any{{SliceKind, "s"}: slice("s", "d", "p", "a"), {RuleKind, "r"}: taintRule("r", selector("d", "", ""))})
	again := taintRule("r", selector("d", "", ""))
	again.UID = "another"
	s.apply(map[objectKey]any{{RuleKind, "r"}: again})
	device, found := s.current.Device("d", "p", "a")
	if !found || len(device.Taints()) != 1 || device.Taints()[0].Source.UID != "another" {
		t.Errorf("taints %+v", device.Taints())
	}
}
