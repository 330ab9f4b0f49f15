package evictor_test

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// feed is an informer whose events the caller makes: the store changes, then the
// handlers are called, in the goroutine of the caller. So what an event costs can be
// measured without the cost of a watch.
type feed struct {
	cache.SharedIndexInformer
	indexer  cache.Indexer
	mutex    sync.Mutex
	handlers []cache.ResourceEventHandler
}

func newFeed() *feed {
	return &feed{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
}

func (f *feed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return f.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (f *feed) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.handlers = append(f.handlers, handler)
	for _, object := range f.indexer.List() {
		handler.OnAdd(object, true)
	}
	return done{}, nil
}

func (f *feed) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (f *feed) AddIndexers(indexers cache.Indexers) error                       { return f.indexer.AddIndexers(indexers) }
func (f *feed) GetIndexer() cache.Indexer                                       { return f.indexer }
func (f *feed) GetStore() cache.Store                                           { return f.indexer }
func (f *feed) HasSynced() bool                                                 { return true }
func (f *feed) HasSyncedChecker() cache.DoneChecker                             { return done{} }

// set stores an object and tells the handlers.
func (f *feed) set(object metav1.Object) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	old, exists, err := f.indexer.Get(object)
	if err == nil {
		err = f.indexer.Update(object)
	}
	if err != nil {
		panic(err)
	}
	for _, handler := range f.handlers {
		if exists {
			handler.OnUpdate(old, object)
		} else {
			handler.OnAdd(object, false)
		}
	}
}

// remove deletes an object and tells the handlers.
func (f *feed) remove(key string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	old, exists, err := f.indexer.GetByKey(key)
	if err != nil || !exists {
		return
	}
	if err := f.indexer.Delete(old); err != nil {
		panic(err)
	}
	for _, handler := range f.handlers {
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

// The feeds in the form that the controller of Kubernetes takes.
type (
	pods      struct{ *feed }
	claims    struct{ *feed }
	published struct{ *feed }
	rules     struct{ *feed }
	classes   struct{ *feed }
)

func (f pods) Informer() cache.SharedIndexInformer      { return f.feed }
func (f claims) Informer() cache.SharedIndexInformer    { return f.feed }
func (f published) Informer() cache.SharedIndexInformer { return f.feed }
func (f rules) Informer() cache.SharedIndexInformer     { return f.feed }
func (f classes) Informer() cache.SharedIndexInformer   { return f.feed }

func (f pods) Lister() corelisters.PodLister { return corelisters.NewPodLister(f.indexer) }
func (f claims) Lister() resourcelisters.ResourceClaimLister {
	return resourcelisters.NewResourceClaimLister(f.indexer)
}

func (f published) Lister() resourcelisters.ResourceSliceLister {
	return resourcelisters.NewResourceSliceLister(f.indexer)
}

func (f rules) Lister() resourcelisters.DeviceTaintRuleLister {
	return resourcelisters.NewDeviceTaintRuleLister(f.indexer)
}

func (f classes) Lister() resourcelisters.DeviceClassLister {
	return resourcelisters.NewDeviceClassLister(f.indexer)
}
