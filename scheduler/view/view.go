// Package view shows the ResourceSlices of a cluster with its ResourceSlicePatches
// applied. It knows no client and no clock.
//
// The slices come with every question, since the scheduler has them: with the taints of
// DeviceTaintRules, and in step with the events that wake its pods. Patches change no
// taint and see none, so the order in which the two are worked in does not count.
package view

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/patch/record"
)

// A View applies patches. Put, Delete, Written and Rebuild are called by one goroutine at a time,
// List by any. The zero value has no patches.
type View struct {
	shown atomic.Pointer[merged] // nil while there are no patches
	stale []*patch.Patch         // what the next Rebuild has to work in
	fresh bool                   // the next Rebuild works everything in

	mutex   sync.Mutex // of what follows
	written bool
	set     patch.Set
	classes map[string]*resourceapi.DeviceClass // by the name of the patch that names it
}

// merged are slices with patches applied. It does not change once it is made.
type merged struct {
	// slices has them by the slice they were made from.
	slices map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice
	// all are those of the published slices with this sum.
	all  []*resourceapi.ResourceSlice
	sum  uint64
	seed maphash.Seed
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

// Written sets whether patched values are written into slices: those are then taken for what
// their drivers published, by what is noted in them, from the next Rebuild on. It reports whether
// that is new.
func (v *View) Written(written bool) bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	changes := v.written != written
	v.written, v.fresh = written, v.fresh || changes
	return changes
}

// Len is the number of patches.
func (v *View) Len() int {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.set.Len()
}

// empty reports whether slices are shown as they are.
func (v *View) empty() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.set.Len() == 0 && !v.written
}

// Rebuild shows the patches as they are now on the slices that there are. List goes on
// with what was before until it is done.
func (v *View) Rebuild(published []*resourceapi.ResourceSlice, now time.Time) {
	last, stale := v.shown.Load(), v.stale
	from := last
	if v.fresh {
		from = nil
	}
	v.stale, v.fresh = nil, false
	if v.empty() {
		v.shown.Store(nil)
		v.forget(last, &merged{})
		return
	}
	next := v.merge(published, from, stale, now)
	v.shown.Store(next)
	v.forget(last, next)
}

// List returns the slices with patches applied, those themselves where there is nothing to
// apply, in any order. Nothing of it may be changed.
func (v *View) List(published []*resourceapi.ResourceSlice, now time.Time) []*resourceapi.ResourceSlice {
	last := v.shown.Load()
	if last == nil {
		return published
	}
	if len(published) == len(last.all) && sum(last.seed, published) == last.sum {
		return last.all
	}
	next := v.merge(published, last, nil, now)
	// Unless a Rebuild was faster: then the next List finds the same again.
	if v.shown.CompareAndSwap(last, next) {
		v.forget(last, next)
	}
	return next.all
}

// sum tells lists of slices apart whatever their order is, since that of the scheduler's
// list is another one each time. It costs a tenth of looking all of them up. Slices that
// are shown are kept, so that no other one gets the address of one of them.
func sum(seed maphash.Seed, published []*resourceapi.ResourceSlice) (sum uint64) {
	for _, slice := range published {
		sum += maphash.Comparable(seed, slice)
	}
	return sum
}

// merge applies patches to the slices that are new or that a stale patch selects.
func (v *View) merge(published []*resourceapi.ResourceSlice, last *merged, stale []*patch.Patch, now time.Time) *merged {
	next := &merged{
		slices: make(map[*resourceapi.ResourceSlice]*resourceapi.ResourceSlice, len(published)),
		all:    make([]*resourceapi.ResourceSlice, len(published)), seed: maphash.MakeSeed(),
	}
	next.sum = sum(next.seed, published)
	for i, slice := range published {
		shown := (*resourceapi.ResourceSlice)(nil)
		if last != nil {
			shown = last.slices[slice]
		}
		if shown == nil || selected(stale, slice) {
			shown = v.apply(slice, now)
		}
		next.slices[slice], next.all[i] = shown, shown
	}
	return next
}

// apply locks for one slice at a time, so that List need not wait for a Rebuild.
func (v *View) apply(slice *resourceapi.ResourceSlice, now time.Time) *resourceapi.ResourceSlice {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	published := slice
	if v.written {
		published, _ = record.Published(slice, now) // one whose record cannot be read is taken as it is
	}
	if result := v.set.Apply(published); result != nil {
		return result.Slice
	}
	return published
}

// forget drops what is remembered of slices that are gone.
func (v *View) forget(last, next *merged) {
	if last == nil {
		return
	}
	gone := map[string]bool{}
	for slice := range last.slices {
		if _, there := next.slices[slice]; !there {
			gone[slice.Name] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	for slice := range next.slices { // of another version
		delete(gone, slice.Name)
	}
	v.mutex.Lock()
	defer v.mutex.Unlock()
	for name := range gone {
		v.set.Forget(name)
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
