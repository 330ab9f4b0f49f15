package tracker

import (
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// gathering keeps the content of its events.
type gathering struct {
	mutex sync.Mutex
	known map[string]*resourceapi.ResourceSlice
}

func (g *gathering) set(object any, there bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	slice := object.(*resourceapi.ResourceSlice)
	if delete(g.known, slice.Name); there {
		g.known[slice.Name] = slice
	}
}

// TestOverlap changes slices, rules, patches and classes at the same time, each kind from
// a goroutine of its own as informers do, while another one reads; after each round the
// view equals the naive recomputation.
func TestOverlap(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	tracker, w, objects := started(t), newWorld(7), map[objectKey]any{}
	w.patches = true
	events := &gathering{known: map[string]*resourceapi.ResourceSlice{}}
	tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { events.set(object, true) },
		UpdateFunc: func(_, object any) { events.set(object, true) },
		DeleteFunc: func(object any) { events.set(object, false) },
	})
	var stop atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for !stop.Load() {
			s := tracker.Snapshot()
			for d := range s.Devices() {
				if merged := d.Merged(); len(d.Taints()) != len(merged.Taints) || merged.Name != d.Name() {
					t.Error("a snapshot is not of one piece")
					return
				}
				for range d.Patched() {
				}
			}
			s.PatchReports()
		}
	})
	defer reading.Wait()
	defer stop.Store(true)
	for range rounds {
		changes := map[Kind][]func(){}
		for range 1 + w.IntN(10) {
			key, object := w.change(5, 4)
			handler := tracker.inbox.handler(key.kind)
			send := func() { handler.OnUpdate(nil, object) }
			if objects[key] = object; object == nil {
				delete(objects, key)
				send = func() { handler.OnDelete(cache.DeletedFinalStateUnknown{Key: key.name}) }
			}
			changes[key.kind] = append(changes[key.kind], send)
		}
		var all sync.WaitGroup
		for _, sends := range changes {
			all.Go(func() {
				for _, send := range sends {
					send()
				}
			})
		}
		all.Wait()
		flush(t, tracker)
		check(t, tracker.Snapshot(), maps.Clone(objects))
	}
	stop.Store(true)
	reading.Wait()
	want := text(t, view(tracker.Snapshot()))
	same := func() bool {
		events.mutex.Lock()
		defer events.mutex.Unlock()
		return text(t, events.known) == want
	}
	for wait := time.Now().Add(time.Minute); !same(); <-time.After(time.Millisecond) {
		if time.Now().After(wait) {
			t.Fatal("a reader of the events has another view")
		}
	}
}
