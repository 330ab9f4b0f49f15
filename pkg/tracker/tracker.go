package tracker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
)

// Options configure a [Tracker].
type Options struct {
	// Sources are what it reads; those of [NewSources] it also runs.
	Sources Sources
	// Window is how long changes are gathered before they are published: the longer,
	// the fewer events. With zero they are published at once; what changes while that
	// goes on is gathered still. Meant are some milliseconds.
	Window time.Duration
	// Logger gets what has no other place to go. The zero value discards it.
	Logger logr.Logger
	// Metrics counts devices, taints and events; nil counts nothing.
	Metrics *Metrics
}

// A Tracker keeps the merged view of a cluster. All its methods may be called at any
// time from any goroutine.
type Tracker struct {
	options  Options
	inbox    *inbox
	snapshot atomic.Pointer[Snapshot]
	synced   chan struct{}
	ended    chan struct{}

	// mutex guards what follows, and orders publishing and adding handlers.
	mutex   sync.Mutex
	handles []*Handle
	mirror  *mirror
	// run is that of Run; nil before.
	run        context.Context
	delivering sync.WaitGroup
}

// New prepares a tracker; [Tracker.Run] makes it work.
func New(options Options) *Tracker {
	t := &Tracker{options: options, inbox: newInbox(), synced: make(chan struct{}), ended: make(chan struct{})}
	if options.Logger.GetSink() == nil {
		t.options.Logger = logr.Discard()
	}
	t.snapshot.Store(&Snapshot{})
	return t
}

// Run keeps the view up to date until ctx ends, and returns when all goroutines that it
// has started are gone. It can be called once.
func (t *Tracker) Run(ctx context.Context) error {
	if err := t.start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer t.end()
	feeds, err := t.listen(ctx, &running)
	if err != nil {
		if ctx.Err() != nil { // informers that end with ctx refuse handlers then
			return nil
		}
		return err
	}
	running.Go(func() { t.options.Sources.run(ctx) })
	t.write(ctx, feeds)
	return nil
}

// start starts the goroutines of the handlers that were added before.
func (t *Tracker) start(ctx context.Context) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.run != nil {
		return errors.New("Run was called before: create another tracker with New")
	}
	t.run = ctx
	for _, h := range t.handles {
		t.startHandler(h)
	}
	return nil
}

// startHandler starts the goroutine that calls a handler.
func (t *Tracker) startHandler(h *Handle) {
	var ctx context.Context
	ctx, h.stop = context.WithCancel(t.run)
	t.delivering.Go(func() { h.deliver(ctx) })
}

// end waits for the handlers.
func (t *Tracker) end() {
	t.mutex.Lock()
	close(t.ended)
	for _, h := range t.handles {
		h.stop()
	}
	t.handles = nil
	t.mutex.Unlock()
	t.delivering.Wait()
}

// A feed is an informer that the tracker listens to.
type feed struct {
	kind   Kind
	handle cache.ResourceEventHandlerRegistration
}

// listen adds the handlers of the informers, and removes them when ctx ends.
func (t *Tracker) listen(ctx context.Context, running *sync.WaitGroup) (feeds []feed, err error) {
	for kind, informer := range t.options.Sources.all() {
		handle, err := informer.AddEventHandlerWithOptions(t.inbox.handler(kind), cache.HandlerOptions{Logger: &t.options.Logger})
		if err != nil {
			return nil, fmt.Errorf("informer of %s: %w", kind, err)
		}
		feeds = append(feeds, feed{kind, handle})
		running.Go(func() {
			<-ctx.Done()
			// The only error is that there is no such handler any more.
			_ = informer.RemoveEventHandler(handle)
		})
	}
	return feeds, nil
}

// write is the single writer.
func (t *Tracker) write(ctx context.Context, feeds []feed) {
	s := newState()
	s.stepCost = stepCost
	if !t.waitForSync(ctx, feeds) {
		return
	}
	var flushes []chan struct{}
	for {
		changed, more := t.inbox.take()
		flushes = append(flushes, more...)
		if first := s.current.revision == 0; first || len(changed) > 0 || s.current.unfinished > 0 {
			visible := s.applyUntil(ctx, changed)
			t.publish(s.current, visible)
			t.options.Metrics.count(s.changed, visible)
			if first {
				close(t.synced)
			}
		}
		if s.current.unfinished > 0 {
			if ctx.Err() != nil {
				return
			}
			continue // with what has changed meanwhile
		}
		for _, done := range flushes {
			close(done)
		}
		flushes = nil
		if !t.wait(ctx) {
			return
		}
	}
}

// waitForSync waits until everything has been read that can be; false if ctx ended before.
func (t *Tracker) waitForSync(ctx context.Context, feeds []feed) bool {
	for _, f := range feeds {
		select {
		case <-ctx.Done():
			return false
		case <-t.options.Sources.unavailable(f.kind):
		case <-f.handle.HasSyncedChecker().Done():
		}
	}
	return true
}

// wait waits for changes, and then for the end of the window.
func (t *Tracker) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-t.inbox.ready:
	}
	if t.options.Window <= 0 {
		return true
	}
	timer := time.NewTimer(t.options.Window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// publish makes a snapshot the current one and queues what has changed.
func (t *Tracker) publish(snapshot *Snapshot, deltas []delta) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	first := t.Snapshot().Revision() == 0
	t.snapshot.Store(snapshot)
	t.mirror.update(deltas)
	for _, h := range t.handles {
		if first {
			h.list(snapshot)
		} else if len(deltas) > 0 {
			h.push(deltas)
		}
	}
}

// Snapshot returns the current view.
func (t *Tracker) Snapshot() *Snapshot { return t.snapshot.Load() }

// Flush waits until every event that the informers delivered before the call is published, and
// the patches are evaluated.
func (t *Tracker) Flush(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ended:
		return errors.New("the tracker has stopped")
	case <-t.inbox.flush():
		return nil
	}
}

// HasSynced reports whether the first view has been published: all kinds have been
// read, but for those that the API server does not have or does not show.
func (t *Tracker) HasSynced() bool { return cache.IsDone(t.HasSyncedChecker()) }

// HasSyncedChecker returns HasSynced in the form of a channel.
func (t *Tracker) HasSyncedChecker() cache.DoneChecker { return syncChecker{t.synced} }

type syncChecker struct{ done chan struct{} }

func (c syncChecker) Name() string          { return "tracker of ResourceSlices" }
func (c syncChecker) Done() <-chan struct{} { return c.done }

// AddEventHandler adds a handler of the events of merged slices. It is called from one
// goroutine of its own, from the time on when the tracker runs: first for all slices
// that there are, then with what has changed. It sees a view that is as new as the
// event or newer. A handler that is slower than the changes gets fewer, larger steps.
func (t *Tracker) AddEventHandler(handler cache.ResourceEventHandler) *Handle {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	h := newHandle(handler)
	if isClosed(t.ended) {
		return h
	}
	t.handles = append(t.handles, h)
	if t.Snapshot().Revision() > 0 {
		h.list(t.Snapshot())
	}
	if t.run != nil {
		t.startHandler(h)
	}
	return h
}

// RemoveEventHandler removes a handler. A call of it that goes on already comes to its
// end, no other one begins.
func (t *Tracker) RemoveEventHandler(h *Handle) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.handles = slices.DeleteFunc(slices.Clone(t.handles), func(other *Handle) bool { return other == h })
	h.stop()
}

// inbox gathers what has changed: the latest state of each object. The zero value is
// empty; ready holds a token when there is something to take or to answer.
type inbox struct {
	mutex   sync.Mutex
	changed map[objectKey]any // nil: gone
	flushes []chan struct{}
	ready   chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) signal() { reconcile.Wake(i.ready) }

// put notes the latest state of an object.
func (i *inbox) put(key objectKey, object any) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.changed == nil {
		i.changed = map[objectKey]any{}
	}
	i.changed[key] = object
	i.signal()
}

// flush returns a channel that the writer closes when it has published all that was
// put before.
func (i *inbox) flush() <-chan struct{} {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	done := make(chan struct{})
	i.flushes = append(i.flushes, done)
	i.signal()
	return done
}

// take empties the inbox.
func (i *inbox) take() (changed map[objectKey]any, flushes []chan struct{}) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	changed, flushes = i.changed, i.flushes
	i.changed, i.flushes = nil, nil
	return changed, flushes
}

// handler puts the objects of an informer into the inbox.
func (i *inbox) handler(kind Kind) cache.ResourceEventHandler {
	set := func(object any) {
		if it, ok := object.(metav1.Object); ok {
			i.put(objectKey{kind, it.GetName()}, object)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			// Of an object whose deletion was missed only the name is sure.
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				i.put(objectKey{kind, missed.Key}, nil)
			} else if it, ok := object.(metav1.Object); ok {
				i.put(objectKey{kind, it.GetName()}, nil)
			}
		},
	}
}
