package tracker

import (
	"context"
	"errors"
	"strconv"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// Lister returns the merged slices in the form of client-go. Each call sees the newest
// view.
func (t *Tracker) Lister() resourcelisters.ResourceSliceLister { return lister{t: t} }

type lister struct {
	resourcelisters.ResourceSliceListerExpansion
	t *Tracker
}

func (l lister) List(selector labels.Selector) ([]*resourceapi.ResourceSlice, error) {
	return l.t.Snapshot().List(selector), nil
}

func (l lister) Get(name string) (*resourceapi.ResourceSlice, error) {
	if slice := l.t.Snapshot().Get(name); slice != nil {
		return slice, nil
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("resourceslices"), name)
}

// Informer returns the tracker in the form of client-go: a drop-in for code that was
// written for the ResourceSliceInformer of an informer factory. Its informer does not
// run anything: [Tracker.Run] does. It keeps a store with indexers of its own; without
// a call of this method there is none.
func (t *Tracker) Informer() resourceinformers.ResourceSliceInformer { return face{t} }

type face struct{ t *Tracker }

func (f face) Lister() resourcelisters.ResourceSliceLister { return f.t.Lister() }

func (f face) Informer() cache.SharedIndexInformer {
	f.t.mutex.Lock()
	defer f.t.mutex.Unlock()
	if f.t.mirror == nil {
		f.t.mirror = &mirror{t: f.t, indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
		for e := range f.t.Snapshot().slices.all() {
			// An indexer without index functions has no errors.
			_ = f.t.mirror.indexer.Add(e.merged)
		}
	}
	return f.t.mirror
}

// mirror is a tracker as a SharedIndexInformer.
type mirror struct {
	t       *Tracker
	indexer cache.Indexer
}

var _ cache.SharedIndexInformer = (*mirror)(nil)

// update keeps the store. It is called before handlers are told.
func (m *mirror) update(deltas []delta) {
	if m == nil {
		return
	}
	for _, d := range deltas {
		// Names are always there; what an index function cannot take panics, as in client-go.
		if d.new == nil {
			_ = m.indexer.Delete(d.old.merged)
		} else {
			_ = m.indexer.Update(d.new.merged)
		}
	}
}

func (m *mirror) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return m.t.AddEventHandler(handler), nil
}

// AddEventHandlerWithResyncPeriod ignores the period: there are no resyncs.
func (m *mirror) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return m.t.AddEventHandler(handler), nil
}

func (m *mirror) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return m.t.AddEventHandler(handler), nil
}

func (m *mirror) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	handle, ok := registration.(*Handle)
	if !ok {
		return errors.New("the registration is not of this tracker")
	}
	m.t.RemoveEventHandler(handle)
	return nil
}

func (m *mirror) GetStore() cache.Store              { return m.indexer }
func (m *mirror) GetIndexer() cache.Indexer          { return m.indexer }
func (m *mirror) GetController() cache.Controller    { return nil }
func (m *mirror) HasSynced() bool                    { return m.t.HasSynced() }
func (m *mirror) AddIndexers(i cache.Indexers) error { return m.indexer.AddIndexers(i) }

func (m *mirror) HasSyncedChecker() cache.DoneChecker { return m.t.HasSyncedChecker() }

// Run waits: the tracker runs by itself.
func (m *mirror) Run(stop <-chan struct{}) {
	select {
	case <-stop:
	case <-m.t.ended:
	}
}

// RunWithContext waits: the tracker runs by itself.
func (m *mirror) RunWithContext(ctx context.Context) { m.Run(ctx.Done()) }

// LastSyncResourceVersion is the revision of the view: the merged slices come of several
// kinds, no resource version of which tells them apart.
func (m *mirror) LastSyncResourceVersion() string {
	return strconv.FormatUint(m.t.Snapshot().Revision(), 10)
}

var errSources = errors.New("the tracker's informers are set up by its Sources")

func (m *mirror) SetWatchErrorHandler(cache.WatchErrorHandler) error { return errSources }
func (m *mirror) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errSources
}
func (m *mirror) SetTransform(cache.TransformFunc) error { return errSources }

func (m *mirror) IsStopped() bool { return isClosed(m.t.ended) }
