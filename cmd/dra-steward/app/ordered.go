package app

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// orderedSlices keeps the ResourceSlices of an informer in order, so that nobody who
// walks them has to sort. The zero value is ready for use.
type orderedSlices struct {
	mu sync.RWMutex
	// list is never changed in place.
	list []*resourceapi.ResourceSlice
}

var _ cache.ResourceEventHandler = (*orderedSlices)(nil)

func order(a, b *resourceapi.ResourceSlice) int {
	return cmp.Or(cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name), cmp.Compare(a.Name, b.Name))
}

// all walks the slices as they are now, driver by driver.
func (o *orderedSlices) all() iter.Seq[*resourceapi.ResourceSlice] {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Values(o.list)
}

// OnAdd is called for a new slice.
func (o *orderedSlices) OnAdd(object any, _ bool) { o.set(nil, object) }

// OnUpdate is called for a changed slice. One that was deleted and made anew in the
// meantime may have another driver.
func (o *orderedSlices) OnUpdate(old, object any) { o.set(old, object) }

// OnDelete is called for a slice that is gone.
func (o *orderedSlices) OnDelete(object any) {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = missed.Obj
	}
	o.set(object, nil)
}

// set takes out one slice and puts in another.
func (o *orderedSlices) set(old, object any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := slices.Clone(o.list)
	if old, ok := old.(*resourceapi.ResourceSlice); ok {
		if at, found := slices.BinarySearchFunc(list, old, order); found {
			list = slices.Delete(list, at, at+1)
		}
	}
	if slice, ok := object.(*resourceapi.ResourceSlice); ok {
		at, found := slices.BinarySearchFunc(list, slice, order)
		if found {
			list[at] = slice
		} else {
			list = slices.Insert(list, at, slice)
		}
	}
	o.list = list
}
