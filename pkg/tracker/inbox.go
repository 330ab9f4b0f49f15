package tracker

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// inbox gathers what has changed: the latest state of each object. The zero value is
// empty; ready holds a token when there is something to take or to answer.
type inbox struct {
	mutex   sync.Mutex
	changed map[objectKey]any // nil: gone
	flushes []chan struct{}
	ready   chan struct{}
}

func newInbox() *inbox { return &inbox{ready: make(chan struct{}, 1)} }

func (i *inbox) signal() {
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

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
