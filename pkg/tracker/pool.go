package tracker

import (
	"cmp"
	"slices"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
)

// A pool is the slices of one driver's pool, in the order of their names. It is
// immutable but for the index, which is made when first needed. A nil pool is empty.
type pool struct {
	name    string // poolKey
	entries []*entry
	index   atomic.Pointer[map[string]place]
}

// place is where a device is.
type place struct {
	entry  *entry
	device int // index in the slice
}

// indexedPool is the number of slices from which on a pool has an index of its
// devices: looking through fewer is as fast.
const indexedPool = 4

// poolKey is the place of a pool in the order of pools, which keeps those of a driver
// together: the name of a driver has no slash.
func poolKey(driver, name string) string { return driver + "/" + name }

func (p *pool) key() string { return p.name }

// each yields the slices; false says that it was stopped.
func (p *pool) each(yield func(*entry) bool) bool {
	if p == nil {
		return true
	}
	for _, e := range p.entries {
		if !yield(e) {
			return false
		}
	}
	return true
}

// with returns the pool with changed slices.
func (p *pool) with(id poolID, edits []edit[*entry]) *pool {
	slices.SortFunc(edits, func(a, b edit[*entry]) int { return cmp.Compare(a.key, b.key) })
	if p == nil {
		return &pool{name: poolKey(id.driver, id.name), entries: merged(nil, edits)}
	}
	return &pool{name: p.name, entries: merged(p.entries, edits)}
}

// find returns the place of a device. Of several with its name it is the one of the
// highest generation of the pool, then the first by the name of its slice.
func (p *pool) find(device string) (place, bool) {
	if p == nil {
		return place{}, false
	}
	if len(p.entries) >= indexedPool {
		found, ok := p.indexed()[device]
		return found, ok
	}
	var best place
	for _, e := range p.entries {
		if best.entry == nil || e.generation() > best.entry.generation() {
			if i := deviceIndex(e.published, device); i >= 0 {
				best = place{e, i}
			}
		}
	}
	return best, best.entry != nil
}

// indexed returns the index. Two readers that make it at once make the same one.
func (p *pool) indexed() map[string]place {
	if index := p.index.Load(); index != nil {
		return *index
	}
	index := map[string]place{}
	for _, e := range p.entries {
		for i := range e.published.Spec.Devices {
			name := e.published.Spec.Devices[i].Name
			if had, ok := index[name]; !ok || e.generation() > had.entry.generation() {
				index[name] = place{e, i}
			}
		}
	}
	p.index.Store(&index)
	return index
}

func (e *entry) generation() int64 { return e.published.Spec.Pool.Generation }

// deviceIndex returns the index of a device in a slice, -1 if it is not there.
func deviceIndex(slice *resourceapi.ResourceSlice, name string) int {
	for i := range slice.Spec.Devices {
		if slice.Spec.Devices[i].Name == name {
			return i
		}
	}
	return -1
}
