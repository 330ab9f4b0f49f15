package evictor

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// backlog are the pods that have to be decided about, each once, in their order. Unlike a
// workqueue it knows for certain when there are none: that somebody is about to add more,
// or decides about the last, counts.
type backlog struct {
	// idle is called whenever everything that was to be decided is.
	idle func()

	mutex   sync.Mutex
	more    sync.Cond
	order   []types.NamespacedName
	waiting map[types.NamespacedName]struct{}
	// busy is how many goroutines add pods or decide about one.
	busy   int
	closed bool
}

func newBacklog(idle func()) *backlog {
	b := &backlog{idle: idle}
	b.more.L = &b.mutex
	return b
}

func (b *backlog) add(pods ...types.NamespacedName) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, pod := range pods {
		if _, known := b.waiting[pod]; !known {
			if b.waiting == nil {
				b.waiting = map[types.NamespacedName]struct{}{}
			}
			b.waiting[pod] = struct{}{}
			b.order = append(b.order, pod)
		}
	}
	b.more.Signal()
}

// during counts f, which adds pods, as something that is not done yet.
func (b *backlog) during(f func()) {
	b.mutex.Lock()
	b.busy++
	b.mutex.Unlock()
	f()
	b.rest()
}

func (b *backlog) rest() {
	b.mutex.Lock()
	b.busy--
	b.mutex.Unlock()
	if b.empty() {
		b.idle()
	}
}

// work calls decide with one pod after the other until close.
func (b *backlog) work(decide func(types.NamespacedName)) {
	for {
		pod, ok := b.next()
		if !ok {
			return
		}
		decide(pod)
		b.rest()
	}
}

// next waits for a pod and counts it as being decided about; false after close.
func (b *backlog) next() (types.NamespacedName, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for len(b.order) == 0 && !b.closed {
		b.more.Wait()
	}
	if b.closed {
		return types.NamespacedName{}, false
	}
	pod := b.order[0]
	delete(b.waiting, pod)
	if b.order = b.order[1:]; len(b.order) == 0 {
		b.order, b.waiting = nil, nil // gives the memory back
	}
	b.busy++
	return pod, true
}

// empty says that everything that was to be decided is.
func (b *backlog) empty() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.order) == 0 && b.busy == 0
}

func (b *backlog) close() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.closed = true
	b.more.Broadcast()
}
