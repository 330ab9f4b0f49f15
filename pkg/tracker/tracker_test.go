package tracker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// TestRunAtTheEnd: informers refuse handlers once they have ended. That is an error while the
// program goes on, and none when it ends before the tracker has started.
func TestRunAtTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	informer := factory.Resource().V1().ResourceSlices().Informer()
	informer.RunWithContext(ended)
	for _, tt := range []struct {
		ctx  context.Context
		fail bool
	}{{ended, false}, {t.Context(), true}} {
		err := New(Options{Sources: Sources{Slices: informer}}).Run(tt.ctx)
		if failed := err != nil; failed != tt.fail {
			t.Errorf("program ended: %v: got %v", !tt.fail, err)
		}
	}
}

// TestInformers runs the tracker on the informers of a factory.
func TestInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(slice("s", "d", "p", "dev"), taintRule("r", selector("d", "", "")))
		factory := informers.NewSharedInformerFactory(client, 0)
		resource := factory.Resource().V1()
		tracker := New(Options{Sources: Sources{
			Slices: resource.ResourceSlices().Informer(), Rules: resource.DeviceTaintRules().Informer(), Classes: resource.DeviceClasses().Informer(),
		}})
		var events recorder
		early := tracker.AddEventHandler(&events)
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running.Go(func() {
			if err := tracker.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if tracker.HasSynced() || early.HasSynced() || tracker.Ready() == nil || tracker.Snapshot().Revision() != 0 {
			t.Error("synced before the informers run")
		}
		factory.Start(ctx.Done())
		running.Go(func() { <-ctx.Done(); factory.Shutdown() })
		synctest.Wait()
		if !tracker.HasSynced() || !early.HasSynced() || tracker.Ready() != nil {
			t.Error("not synced")
		}
		resourceV1 := client.ResourceV1()
		if err := resourceV1.DeviceTaintRules().Delete(ctx, "r", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := events.all(); got != "add(s,1,true) update(s,1,0)" {
			t.Errorf("told %q: no slice may be shown without the taints that it has", got)
		}
		for _, c := range tracker.Conditions() {
			if !c.Available {
				t.Errorf("%s is not available", c.Kind)
			}
		}
		cancel()
	})
}

// TestSlowHandler shows how changes of one slice become one.
func TestSlowHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		release := make(chan struct{})
		var events recorder
		slow := tracker.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(object any, initial bool) { events.OnAdd(object, initial); <-release },
			UpdateFunc: events.OnUpdate,
			DeleteFunc: events.OnDelete,
		})
		step := func(object any) { tracker.put(object); synctest.Wait() }
		step(slice("a", "d", "p", "dev")) // the handler hangs in this call
		for i := range 5 {
			step(taintRule("r"+strconv.Itoa(i), selector("d", "", "")))
		}
		step(slice("b", "d", "p", "dev"))
		tracker.inbox.handler(SliceKind).OnDelete(slice("b", "d", "p", "dev"))
		step(slice("c", "d", "p", "dev"))
		replaced := slice("c", "d", "p")
		replaced.UID = "another"
		step(replaced)
		close(release)
		synctest.Wait()
		if got := events.all(); got != "add(a,0,false) update(a,0,5) add(c,0,false)" {
			t.Error(got)
		}
		if !slow.HasSynced() {
			t.Error("a handler that was told of all is not synced")
		}
		again := slice("c", "d", "p")
		again.UID = "a third one"
		step(again)
		if got := events.all(); !strings.HasSuffix(got, "delete(c,0) add(c,0,false)") {
			t.Errorf("%s: a slice that was replaced must be deleted and added", got)
		}
	})
}

// TestLateHandler shows that each handler syncs by itself.
func TestLateHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		tracker.put(slice("a", "d", "p"))
		tracker.put(slice("b", "d", "p"))
		synctest.Wait()
		release := make(chan struct{})
		var events recorder
		late := tracker.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(object any, initial bool) { <-release; events.OnAdd(object, initial) },
			DeleteFunc: events.OnDelete,
		})
		synctest.Wait()
		if late.HasSynced() {
			t.Error("synced before it was told")
		}
		tracker.put(slice("c", "d", "p"))
		tracker.inbox.handler(SliceKind).OnDelete(slice("b", "d", "p"))
		synctest.Wait()
		close(release)
		synctest.Wait()
		if got := events.all(); got != "add(a,0,true) add(c,0,false)" || !late.HasSynced() {
			t.Errorf("%s, synced %t", got, late.HasSynced())
		}
		if empty := started(t).AddEventHandler(&events); cache.IsDone(empty) {
			t.Log("synced at once") // may be, there is nothing to tell
		} else if synctest.Wait(); !empty.HasSynced() {
			t.Error("a handler that has nothing to be told is not synced")
		}
	})
}

// TestWindow shows that changes of one window give one event.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := New(Options{Window: 2 * time.Millisecond})
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running.Go(func() {
			if err := tracker.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		var events recorder
		tracker.AddEventHandler(&events)
		synctest.Wait()
		tracker.put(slice("s", "d", "p", "dev"))
		synctest.Wait()
		tracker.put(taintRule("r", selector("d", "", "")))
		flush(t, tracker)
		synctest.Wait()
		if got := events.all(); got != "add(s,1,false)" {
			t.Error(got)
		}
		if err := tracker.Run(ctx); err == nil {
			t.Error("a second Run must be refused")
		}
		cancel()
		synctest.Wait()
		if err := tracker.Flush(context.Background()); err == nil {
			t.Error("a tracker that has ended cannot be flushed")
		}
		if h := tracker.AddEventHandler(&events); h.HasSynced() {
			t.Error("a handler of a tracker that has ended cannot sync")
		}
	})
}

// TestInformerFace uses the tracker as code does that knows a ResourceSliceInformer.
func TestInformerFace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := started(t)
		tracker.put(slice("before", "d", "p", "dev"))
		synctest.Wait()
		informer := tracker.Informer().Informer()
		err := informer.AddIndexers(cache.Indexers{"driver": func(object any) ([]string, error) {
			return []string{object.(*resourceapi.ResourceSlice).Spec.Driver}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		var events recorder
		registration, err := informer.AddEventHandlerWithOptions(&events, cache.HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range []any{slice("after", "d", "p", "dev"), taintRule("r", selector("d", "", ""))} {
			synctest.Wait()
			tracker.put(object)
		}
		synctest.Wait()
		if got := events.all(); got != "add(before,0,true) add(after,0,false) update(after,0,1) update(before,0,1)" {
			t.Error(got)
		}
		found, err := informer.GetIndexer().ByIndex("driver", "d")
		if err != nil || len(found) != 2 || nTaints(found[0]) != 1 {
			t.Errorf("the index has %v, %v", found, err)
		}
		if !informer.HasSynced() || !registration.HasSynced() || informer.IsStopped() || informer.LastSyncResourceVersion() == "" {
			t.Error("the informer is not synced")
		}
		lister := tracker.Informer().Lister()
		if all, err := lister.List(labels.Everything()); err != nil || len(all) != 2 {
			t.Errorf("the lister has %v, %v", all, err)
		}
		if _, err := lister.Get("none"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		if got, err := lister.Get("after"); err != nil || nTaints(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		if err := informer.RemoveEventHandler(registration); err != nil {
			t.Error(err)
		}
		tracker.inbox.handler(SliceKind).OnDelete(slice("after", "d", "p", "dev"))
		synctest.Wait()
		if len(informer.GetStore().ListKeys()) != 1 {
			t.Error("a deleted slice stays in the store")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		informer.RunWithContext(ctx)
	})
}

// TestMetrics counts, and folds what are too many drivers.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the names can be taken twice")
	}
	s := newState()
	count := func(batch map[objectKey]any) {
		visible := s.apply(batch)
		metrics.count(s.changed, visible)
	}
	count(map[objectKey]any{
		{SliceKind, "a"}: driverTaint(slice("a", "d", "p", "dev0", "dev1"), "example.com/own"),
		{SliceKind, "b"}: slice("b", "e", "p", "dev0"),
		{RuleKind, "r"}:  taintRule("r", selector("", "", "dev0")),
	})
	want := `
# HELP dra_steward_tracker_detail Level of detail of the series of devices: 1 for the current one of device, pool, driver and cluster.
# TYPE dra_steward_tracker_detail gauge
dra_steward_tracker_detail{level="device",metric="device_patched_keys"} 1
dra_steward_tracker_detail{level="device",metric="device_taints"} 1
# HELP dra_steward_tracker_device_taints Taints of devices, by source (driver or rule) and effect, for devices with at least one. By pool if there are too many series: see dra_steward_tracker_detail.
# TYPE dra_steward_tracker_device_taints gauge
dra_steward_tracker_device_taints{device="dev0",driver="d",effect="NoSchedule",pool="p",source="rule"} 1
dra_steward_tracker_device_taints{device="dev0",driver="d",effect="None",pool="p",source="driver"} 1
dra_steward_tracker_device_taints{device="dev0",driver="e",effect="NoSchedule",pool="p",source="rule"} 1
dra_steward_tracker_device_taints{device="dev1",driver="d",effect="None",pool="p",source="driver"} 1
# HELP dra_steward_tracker_devices Devices in ResourceSlices, by driver.
# TYPE dra_steward_tracker_devices gauge
dra_steward_tracker_devices{driver="d"} 2
dra_steward_tracker_devices{driver="e"} 1
# HELP dra_steward_tracker_folded_drivers Drivers without their own series: they are counted with the driver "".
# TYPE dra_steward_tracker_folded_drivers gauge
dra_steward_tracker_folded_drivers 0
# HELP dra_steward_tracker_patched_devices Devices with an attribute or a capacity from a ResourceSlicePatch, by driver.
# TYPE dra_steward_tracker_patched_devices gauge
dra_steward_tracker_patched_devices{driver="d"} 0
dra_steward_tracker_patched_devices{driver="e"} 0
# HELP dra_steward_tracker_slice_changes_total Events about merged ResourceSlices that event handlers received.
# TYPE dra_steward_tracker_slice_changes_total counter
dra_steward_tracker_slice_changes_total 2
# HELP dra_steward_tracker_taints Taints of devices, by driver and by source: the driver itself, or a DeviceTaintRule.
# TYPE dra_steward_tracker_taints gauge
dra_steward_tracker_taints{driver="d",source="driver"} 2
dra_steward_tracker_taints{driver="d",source="rule"} 1
dra_steward_tracker_taints{driver="e",source="driver"} 0
dra_steward_tracker_taints{driver="e",source="rule"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	batch := map[objectKey]any{{SliceKind, "a"}: nil, {SliceKind, "b"}: nil}
	for i := range maxDrivers + 10 {
		name := strconv.Itoa(i)
		batch[objectKey{SliceKind, "many" + name}] = slice("many"+name, "driver"+name, "p", "dev0")
	}
	count(batch)
	want = `
# HELP dra_steward_tracker_folded_drivers Drivers without their own series: they are counted with the driver "".
# TYPE dra_steward_tracker_folded_drivers gauge
dra_steward_tracker_folded_drivers 10
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_tracker_folded_drivers"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(metrics, "dra_steward_tracker_devices"); n != maxDrivers+1 {
		t.Errorf("%d series of devices", n)
	}
}

// TestMetricsFallBack: too many devices are counted by pool, too many pools by driver, too
// many drivers together, and the metrics report the level. Deleted devices are not counted.
func TestMetricsFallBack(t *testing.T) {
	devices := func(n int) (all []string) {
		for i := range n {
			all = append(all, "dev"+strconv.Itoa(i))
		}
		return all
	}
	for level, tt := range map[string]struct {
		drivers, pools, devices int
		series                  int
	}{
		"device":  {1, 10, maxDetailSeries / 10, maxDetailSeries},
		"pool":    {2, 10, maxDetailSeries/20 + 1, 20},
		"driver":  {2, maxDetailSeries/2 + 1, 1, 2},
		"cluster": {maxDetailSeries + 1, 1, 1, 1},
	} {
		t.Run(level, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			metrics, err := NewMetrics(registry)
			if err != nil {
				t.Fatal(err)
			}
			s := newState()
			batch := map[objectKey]any{{RuleKind, "r"}: taintRule("r", selector("", "", "")), {PatchKind, "a"}: color("a", "red")}
			for d := range tt.drivers {
				for p := range tt.pools {
					name := fmt.Sprint(d, "-", p)
					batch[objectKey{SliceKind, name}] = slice(name, "driver"+strconv.Itoa(d), "pool"+strconv.Itoa(p), devices(tt.devices)...)
				}
			}
			visible := s.apply(batch)
			metrics.count(s.changed, visible)
			want := fmt.Sprintf(`
# HELP dra_steward_tracker_detail Level of detail of the series of devices: 1 for the current one of device, pool, driver and cluster.
# TYPE dra_steward_tracker_detail gauge
dra_steward_tracker_detail{level=%q,metric="device_patched_keys"} 1
dra_steward_tracker_detail{level=%q,metric="device_taints"} 1
`, level, level)
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_tracker_detail"); err != nil {
				t.Error(err)
			}
			for _, name := range []string{"dra_steward_tracker_device_taints", "dra_steward_tracker_device_patched_keys"} {
				sum, series := 0.0, 0
				families, err := registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, family := range families {
					if family.GetName() == name {
						for _, m := range family.Metric {
							sum, series = sum+m.GetGauge().GetValue(), series+1
						}
					}
				}
				if all := tt.drivers * tt.pools * tt.devices; int(sum) != all || series != tt.series {
					t.Errorf("%s: %v in %d series, want %d in %d", name, sum, series, all, tt.series)
				}
			}
			for key := range batch {
				batch[key] = nil
			}
			visible = s.apply(batch)
			metrics.count(s.changed, visible)
			if n := testutil.CollectAndCount(metrics, "dra_steward_tracker_device_taints"); n != 0 || len(metrics.special) != 0 {
				t.Errorf("%d series of what is gone", n)
			}
		})
	}
}
