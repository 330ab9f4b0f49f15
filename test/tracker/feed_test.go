package tracker

import (
	"context"
	"strconv"
	"sync"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	upstream "k8s.io/dynamic-resource-allocation/resourceslice/tracker"

	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// informer is an informer whose events the caller makes: the store changes, then the
// handlers are called, in the goroutine of the caller.
type informer struct {
	cache.SharedIndexInformer
	indexer  cache.Indexer
	mutex    sync.Mutex
	handlers []cache.ResourceEventHandler
}

func newInformer() *informer {
	return &informer{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.handlers = append(i.handlers, handler)
	for _, object := range i.indexer.List() {
		handler.OnAdd(object, true)
	}
	return done{}, nil
}

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (i *informer) AddIndexers(indexers cache.Indexers) error                       { return i.indexer.AddIndexers(indexers) }
func (i *informer) GetIndexer() cache.Indexer                                       { return i.indexer }
func (i *informer) GetStore() cache.Store                                           { return i.indexer }
func (i *informer) HasSynced() bool                                                 { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker                             { return done{} }

// set stores an object and tells the handlers.
func (i *informer) set(object metav1.Object) {
	old, exists, err := i.indexer.GetByKey(object.GetName())
	if err == nil {
		err = i.indexer.Update(object)
	}
	if err != nil {
		panic(err)
	}
	for _, handler := range i.handlers {
		if exists {
			handler.OnUpdate(old, object)
		} else {
			handler.OnAdd(object, false)
		}
	}
}

// remove deletes an object and tells the handlers, of a missed deletion only the name.
func (i *informer) remove(name string, missed bool) {
	old, exists, err := i.indexer.GetByKey(name)
	if err != nil || !exists {
		return
	}
	if err := i.indexer.Delete(old); err != nil {
		panic(err)
	}
	if missed {
		old = cache.DeletedFinalStateUnknown{Key: name}
	}
	for _, handler := range i.handlers {
		handler.OnDelete(old)
	}
}

// done is done from the beginning.
type done struct{}

func (done) Name() string                        { return "done" }
func (done) HasSynced() bool                     { return true }
func (done) HasSyncedChecker() cache.DoneChecker { return done{} }
func (done) Done() <-chan struct{}               { return closed }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// The informers in the form that upstream takes.
type (
	slices struct{ *informer }
	rules  struct{ *informer }
)

func (s slices) Informer() cache.SharedIndexInformer { return s.informer }
func (s slices) TypedInformer() resourceinformers.ResourceSliceIndexInformer {
	return cache.NewTypedSharedIndexInformer[*resourceapi.ResourceSlice](s.informer)
}
func (s slices) Lister() resourcelisters.ResourceSliceLister {
	return resourcelisters.NewResourceSliceLister(s.indexer)
}

func (r rules) Informer() cache.SharedIndexInformer { return r.informer }
func (r rules) TypedInformer() resourceinformers.DeviceTaintRuleIndexInformer {
	return cache.NewTypedSharedIndexInformer[*resourceapi.DeviceTaintRule](r.informer)
}
func (r rules) Lister() resourcelisters.DeviceTaintRuleLister {
	return resourcelisters.NewDeviceTaintRuleLister(r.indexer)
}

// A subject is one of the two trackers, with the informers that it listens to.
type subject struct {
	slices, rules *informer
	list          func() []*resourceapi.ResourceSlice
	handle        func(cache.ResourceEventHandler)
	// flush waits until everything is in the view.
	flush func()
}

func newSubject() *subject { return &subject{slices: newInformer(), rules: newInformer()} }

// startUpstream starts upstream's tracker, which works in the goroutine of the caller.
func (s *subject) startUpstream(tb testing.TB) {
	t, err := upstream.StartTracker(tb.Context(), upstream.Options{
		EnableDeviceTaintRules: true, SliceInformer: slices{s.slices}, TaintInformer: rules{s.rules},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(t.Stop)
	s.list = func() []*resourceapi.ResourceSlice {
		all, err := t.ListPatchedResourceSlices()
		if err != nil {
			tb.Fatal(err)
		}
		return all
	}
	s.handle = func(handler cache.ResourceEventHandler) {
		if _, err := t.AddEventHandler(handler); err != nil {
			tb.Fatal(err)
		}
	}
	s.flush = func() {}
}

// startOurs starts our tracker and waits until it has synced.
func (s *subject) startOurs(tb testing.TB) {
	t := tracker.New(tracker.Options{Sources: tracker.Sources{Slices: s.slices, Rules: s.rules}})
	ctx, cancel := context.WithCancel(tb.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := t.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() { cancel(); running.Wait() })
	<-t.HasSyncedChecker().Done()
	s.list = func() []*resourceapi.ResourceSlice { return t.Snapshot().List(nil) }
	s.handle = func(handler cache.ResourceEventHandler) {
		<-t.AddEventHandler(handler).HasSyncedChecker().Done()
	}
	s.flush = func() {
		if err := t.Flush(ctx); err != nil {
			tb.Fatal(err)
		}
	}
}

// implementations are both trackers.
func implementations() map[string]func(*subject, testing.TB) {
	return map[string]func(*subject, testing.TB){"upstream": (*subject).startUpstream, "ours": (*subject).startOurs}
}

// names are those of both, in a fixed order.
func names() []string { return []string{"upstream", "ours"} }

// resourceSlice makes a slice with devices of 8 attributes and a capacity, as drivers of
// accelerators publish them.
func resourceSlice(i, devices int) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-" + strconv.Itoa(i), UID: types.UID(strconv.Itoa(i)), ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "driver-" + strconv.Itoa(i%4) + ".example.com",
			Pool:   resourceapi.ResourcePool{Name: "node-" + strconv.Itoa(i), Generation: 1, ResourceSliceCount: 1},
		},
	}
	for d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, device(i, d))
	}
	return s
}

func rule(name string, selector *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: selector,
			Taint:          resourceapi.DeviceTaint{Key: "example.com/" + name, Effect: resourceapi.DeviceTaintEffectNoSchedule},
		},
	}
}
