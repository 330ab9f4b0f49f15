package tracker

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
)

// A Handle is the registration of an event handler.
type Handle struct {
	handler cache.ResourceEventHandler

	mutex sync.Mutex
	// pending are the notices that the handler has not received yet, by the name of the
	// slice.
	pending map[string]notice
	// order are the names of pending, in the order of the first change.
	order []string
	// wake holds a token when there is something in order or the initial slices are queued.
	wake chan struct{}
	// listed is set once the slices of the first snapshot are in pending, left then
	// counts those of them that have not been delivered.
	listed bool
	left   int
	synced chan struct{}
	stop   context.CancelFunc
}

var _ cache.ResourceEventHandlerRegistration = (*Handle)(nil)

// notice is a change of one slice: old is the state that the handler has, nil for none.
type notice struct {
	old, new *resourceapi.ResourceSlice
	initial  bool
}

func newHandle(handler cache.ResourceEventHandler) *Handle {
	return &Handle{
		handler: handler, pending: map[string]notice{}, wake: make(chan struct{}, 1),
		synced: make(chan struct{}), stop: func() {},
	}
}

// HasSynced reports whether the handler has received all slices that existed when it was
// added or when the tracker synced, whichever was later.
func (h *Handle) HasSynced() bool { return cache.IsDone(h) }

// HasSyncedChecker returns HasSynced in the form of a channel.
func (h *Handle) HasSyncedChecker() cache.DoneChecker { return h }

// Name is what HasSynced waits for.
func (h *Handle) Name() string { return "event handler of the tracker of ResourceSlices" }

// Done returns the channel that is closed when HasSynced becomes true.
func (h *Handle) Done() <-chan struct{} { return h.synced }

// list queues all slices of the first snapshot that the handler sees.
func (h *Handle) list(snapshot *Snapshot) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for e := range snapshot.slices.all() {
		h.pending[e.key()] = notice{new: e.merged, initial: true}
		h.order = append(h.order, e.key())
	}
	h.left, h.listed = len(h.order), true
	h.signal()
}

// push queues changes; those of one slice become one.
func (h *Handle) push(deltas []delta) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for _, d := range deltas {
		name := d.name()
		queued, waiting := h.pending[name]
		if !waiting {
			h.order = append(h.order, name)
			if d.old != nil {
				queued.old = d.old.merged
			}
		}
		queued.new = nil
		if d.new != nil {
			queued.new = d.new.merged
		}
		h.pending[name] = queued
	}
	h.signal()
}

func (h *Handle) signal() { reconcile.Wake(h.wake) }

// next takes one notice out of the queue.
func (h *Handle) next() (notice, bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if len(h.order) == 0 {
		h.order = nil // what it has grown to in a burst is not kept
		return notice{}, false
	}
	name := h.order[0]
	h.order = h.order[1:]
	n := h.pending[name]
	delete(h.pending, name)
	return n, true
}

// deliver calls the handler until ctx ends.
func (h *Handle) deliver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		for ctx.Err() == nil {
			n, ok := h.next()
			if !ok {
				break
			}
			n.dispatch(h.handler)
			h.count(n)
		}
		h.count(notice{})
	}
}

// count closes synced when the last of the initial slices has been delivered.
func (h *Handle) count(n notice) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if n.initial {
		h.left--
	}
	if h.listed && h.left == 0 && !cache.IsDone(h) {
		close(h.synced)
	}
}

// dispatch calls the handler: never for a slice that was added and deleted in between, and
// twice for a slice that was replaced by another one of its name.
func (n notice) dispatch(handler cache.ResourceEventHandler) {
	switch {
	case n.old == nil && n.new == nil:
	case n.old == nil:
		handler.OnAdd(n.new, n.initial)
	case n.new == nil:
		handler.OnDelete(n.old)
	case n.old.UID != n.new.UID:
		handler.OnDelete(n.old)
		handler.OnAdd(n.new, false)
	default:
		handler.OnUpdate(n.old, n.new)
	}
}

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
// written for the ResourceSliceInformer of an informer factory. Its informer does not run
// anything: [Tracker.Run] does. It keeps a store with indexers of its own, which exists
// only after a call of this method.
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

// update keeps the store. It is called before the handlers are.
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
		return errors.New("the registration belongs to another informer")
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

// LastSyncResourceVersion is the revision of the view: the merged slices are made from
// several kinds, so that no resource version identifies them.
func (m *mirror) LastSyncResourceVersion() string {
	return strconv.FormatUint(m.t.Snapshot().Revision(), 10)
}

var errSources = errors.New("not supported: set up the informers in the Sources of the tracker")

func (m *mirror) SetWatchErrorHandler(cache.WatchErrorHandler) error { return errSources }
func (m *mirror) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return errSources
}
func (m *mirror) SetTransform(cache.TransformFunc) error { return errSources }

func (m *mirror) IsStopped() bool { return isClosed(m.t.ended) }
