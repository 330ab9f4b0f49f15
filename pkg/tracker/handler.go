package tracker

import (
	"context"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// A Handle is the registration of an event handler.
type Handle struct {
	handler cache.ResourceEventHandler

	mutex sync.Mutex
	// pending says, by name, what the handler has yet to be told.
	pending map[string]notice
	// order are the names of pending, in the order of the first change.
	order []string
	// wake holds a token when there is something in order or initial is settled.
	wake chan struct{}
	// listed is set once the slices of the first snapshot are in pending, left then
	// counts those of them that have not been delivered.
	listed bool
	left   int
	synced chan struct{}
	stop   context.CancelFunc
}

var _ cache.ResourceEventHandlerRegistration = (*Handle)(nil)

// notice is what has become of the slice that the handler knows as old; nil for none.
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

// HasSynced reports whether the handler has been told of all slices that were there
// when it was added, or, if that was before the tracker had synced, when it had.
func (h *Handle) HasSynced() bool { return cache.IsDone(h) }

// HasSyncedChecker returns HasSynced in the form of a channel.
func (h *Handle) HasSyncedChecker() cache.DoneChecker { return h }

// Name says what HasSynced waits for.
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

func (h *Handle) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

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

// deliver tells the handler until ctx ends.
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
			n.tell(h.handler)
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

// tell calls the handler: not at all for what came and went, and twice for a slice that
// has been replaced by another one of its name.
func (n notice) tell(handler cache.ResourceEventHandler) {
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
