package tracker

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// A convertedWatch converts the events of another watch. Unlike [watch.Filter], it ends when it is
// stopped while nothing reads its events, as a reflector does that lists again.
type convertedWatch struct {
	from    watch.Interface
	result  chan watch.Event
	stop    sync.Once
	stopped chan struct{}
}

func convertWatch(from watch.Interface, convert func(watch.Event) watch.Event) watch.Interface {
	w := &convertedWatch{from: from, result: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(w.result)
		for event := range from.ResultChan() {
			select {
			case w.result <- convert(event):
			case <-w.stopped:
				return
			}
		}
	}()
	return w
}

// ResultChan has the converted events.
func (w *convertedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop ends the watch; it can be called again.
func (w *convertedWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.from.Stop()
}
