package reconcile

import "k8s.io/client-go/tools/cache"

// Handlers are the event handlers of one controller, which it removes when it ends. The zero value
// has none.
type Handlers struct {
	// Synced say that the handlers have been called for what there was.
	Synced []cache.DoneChecker
	stops  []func()
}

// Add adds a handler to an informer. After an error, none of the handlers is left.
func (h *Handlers) Add(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	handle, err := informer.AddEventHandler(handler)
	if err != nil {
		h.Remove()
		return err
	}
	h.Synced = append(h.Synced, handle.HasSyncedChecker())
	h.OnRemove(func() { _ = informer.RemoveEventHandler(handle) }) // the only error is that there is no such handler any more
	return nil
}

// OnRemove has Remove call f, too.
func (h *Handlers) OnRemove(f func()) { h.stops = append(h.stops, f) }

// Remove removes the handlers.
func (h *Handlers) Remove() {
	for _, stop := range h.stops {
		stop()
	}
	h.stops = nil
}
