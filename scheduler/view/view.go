// Package view shows the ResourceSlices of a cluster with its ResourceSlicePatches
// applied. It knows no client and no clock.
//
// The slices come with every question, since the scheduler has them: with the taints of
// DeviceTaintRules, and in step with the events that wake its pods. Patches change no
// taint and see none, so the order in which the two are worked in does not count.
package view

import (
	"slices"
	"sync"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A View applies patches. Put, Delete and Rebuild are called by one goroutine at a time,
// List by any. The zero value has no patches.
type View struct {
	shown atomic.Pointer[merged] // nil while there are no patches
	stale []*patch.Patch         // what the next Rebuild has to work in

	mutex   sync.Mutex // of what follows
	set     patch.Set
	classes map[string]*resourceapi.DeviceClass // by the name of the patch that names it
}

// merged are slices with patches applied, by the slice they were made from.
type merged struct {
	slices map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice
}

// Put takes a patch in; class is the DeviceClass that its filter names, nil if there is
// none. It reports whether that changes anything, which a write of the status does not.
// The patch counts from the next Rebuild on.
func (v *View) Put(object *v1alpha1.ResourceSlicePatch, class *resourceapi.DeviceClass) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if old := v.set.Get(object.Name); old != nil && samePatch(old.Object, object) && sameClass(v.classes[object.Name], class) {
		return false
	}
	if v.classes == nil {
		v.classes = map[string]*resourceapi.DeviceClass{}
	}
	v.classes[object.Name] = class
	old, now := v.set.Put(object, class)
	if old != nil {
		v.stale = append(v.stale, old)
	}
	v.stale = append(v.stale, now)
	return true
}

// Delete takes a patch out, from the next Rebuild on. It reports whether there was one.
func (v *View) Delete(name string) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	old := v.set.Delete(name)
	if old == nil {
		return false
	}
	delete(v.classes, name)
	v.stale = append(v.stale, old)
	return true
}

// Len is the number of patches.
func (v *View) Len() int {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.set.Len()
}

// Rebuild shows the patches as they are now on the slices that there are. List goes on
// with what was before until it is done.
func (v *View) Rebuild(published []*resourceapi.ResourceSlice) {
	last, stale := v.shown.Load(), v.stale
	v.stale = nil
	if v.Len() == 0 {
		v.shown.Store(nil)
		v.forget(last, nil)
		return
	}
	next, _ := v.merge(published, last, stale)
	v.shown.Store(next)
	v.forget(last, published)
}

// List returns the slices with patches applied, in the order of the given ones; those
// themselves where there is nothing to apply. Nothing of it may be changed.
func (v *View) List(published []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	last := v.shown.Load()
	if last == nil {
		return published
	}
	all := make([]*resourceapi.ResourceSlice, len(published))
	for i, slice := range published {
		if all[i] = last.slices[slice]; all[i] == nil {
			return v.extend(published, last)
		}
	}
	return all
}

// extend is List for slices of which some are new. What it finds is kept, unless a Rebuild
// was faster: then the next List finds it again.
func (v *View) extend(published []*resourceapi.ResourceSlice, last *merged) []*resourceapi.ResourceSlice {
	next, all := v.merge(published, last, nil)
	if v.shown.CompareAndSwap(last, next) {
		v.forget(last, published)
	}
	return all
}

// merge applies patches to the slices that are new or that a stale patch selects.
func (v *View) merge(published []*resourceapi.ResourceSlice, last *merged, stale []*patch.Patch) (*merged, []*resourceapi.ResourceSlice) {
	next := &merged{make(map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice, len(published))}
	all := make([]*resourceapi.ResourceSlice, len(published))
	for i, slice := range published {
		if last != nil {
			all[i] = last.slices[slice]
		}
		if all[i] == nil || selected(stale, slice) {
			all[i] = v.apply(slice)
		}
		next.slices[slice] = all[i]
	}
	return next, all
}

// apply locks for one slice at a time, so that List need not wait for a Rebuild.
func (v *View) apply(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if result := v.set.Apply(slice); result != nil {
		return result.Slice
	}
	return slice
}

// forget drops what is remembered of slices that are gone.
func (v *View) forget(last *merged, published []*resourceapi.ResourceSlice) {
	if last == nil {
		return
	}
	there := make(map[string]bool, len(published))
	for _, slice := range published {
		there[slice.Name] = true
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for slice := range last.slices {
		if !there[slice.Name] {
			v.set.Forget(slice.Name)
		}
	}
}

func selected(patches []*patch.Patch, slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(patches, func(p *patch.Patch) bool {
		return p.Selects(slice.Spec.Driver, slice.Spec.Pool.Name)
	})
}

// samePatch reports whether two versions of a patch say the same.
func samePatch(a, b *v1alpha1.ResourceSlicePatch) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.CreationTimestamp.Equal(&b.CreationTimestamp)
}

func sameClass(a, b *resourceapi.DeviceClass) bool {
	if a == nil || b == nil {
		return a == b
	}
	return equality.Semantic.DeepEqual(a.Spec.Selectors, b.Spec.Selectors)
}
