package tracker

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A Snapshot is the view at one time. It never changes, and neither may what it
// returns be changed. The zero value is the view of a cluster without devices.
type Snapshot struct {
	revision uint64
	devices  int
	slices   ordered[*entry]
	pools    ordered[*pool]
	rules    ordered[object[*resourceapi.DeviceTaintRule]]
	patches  ordered[compiledPatch]
	classes  ordered[object[*resourceapi.DeviceClass]]
	// unfinished is how many slices have patches that are not evaluated yet.
	unfinished int
}

// object is an API object in an ordered list.
type object[T metav1.Object] struct{ value T }

func (o object[T]) key() string { return o.value.GetName() }

func editOf[V any, T interface {
	*V
	metav1.Object
}](name string, value T) edit[object[T]] {
	return edit[object[T]]{key: name, item: object[T]{value}, remove: value == nil}
}

func values[T metav1.Object](list ordered[object[T]]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for o := range list.all() {
			if !yield(o.value) {
				return
			}
		}
	}
}

// Revision grows with each snapshot that a tracker publishes; it is 0 before the first.
func (s *Snapshot) Revision() uint64 { return s.revision }

// List returns the merged slices whose labels match, in the order of their names.
func (s *Snapshot) List(selector labels.Selector) []*resourceapi.ResourceSlice {
	all := selector == nil || selector.Empty()
	list := make([]*resourceapi.ResourceSlice, 0, s.slices.length)
	for e := range s.slices.all() {
		if all || selector.Matches(labels.Set(e.merged.Labels)) {
			list = append(list, e.merged)
		}
	}
	return list
}

// Get returns the merged slice of that name, or nil.
func (s *Snapshot) Get(name string) *resourceapi.ResourceSlice {
	if e, found := s.slices.get(name); found {
		return e.merged
	}
	return nil
}

// Published returns the slice of that name as its driver published it, or nil.
func (s *Snapshot) Published(name string) *resourceapi.ResourceSlice {
	if e, found := s.slices.get(name); found {
		return e.published
	}
	return nil
}

// Stored returns the slice of that name as the API server has it, or nil. It differs from
// Published where patches are written into slices ([materialize]).
func (s *Snapshot) Stored(name string) *resourceapi.ResourceSlice {
	if e, found := s.slices.get(name); found {
		return e.stored
	}
	return nil
}

// StoredSlices yields all slices as the API server has them, pool by pool.
func (s *Snapshot) StoredSlices() iter.Seq[*resourceapi.ResourceSlice] {
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		for p := range s.pools.all() {
			if !p.each(func(e *entry) bool { return yield(e.stored) }) {
				return
			}
		}
	}
}

// Patched returns what ResourceSlicePatches do to a slice, nil if no device matches.
func (s *Snapshot) Patched(name string) *patch.Result {
	if e, found := s.slices.get(name); found {
		return e.patched
	}
	return nil
}

// Unfinished reports whether the patches of a slice are not evaluated yet: the slice has the
// values of the last result.
func (s *Snapshot) Unfinished(name string) bool {
	e, found := s.slices.get(name)
	return found && e.unfinished
}

// ByPool returns the merged slices of a driver's pool, of all its generations, in the
// order of their names.
func (s *Snapshot) ByPool(driver, name string) (all []*resourceapi.ResourceSlice) {
	s.pool(driver, name).each(func(e *entry) bool {
		all = append(all, e.merged)
		return true
	})
	return all
}

// PublishedByPool is ByPool for the slices as their driver published them.
func (s *Snapshot) PublishedByPool(driver, name string) (all []*resourceapi.ResourceSlice) {
	s.pool(driver, name).each(func(e *entry) bool {
		all = append(all, e.published)
		return true
	})
	return all
}

// PublishedSlices yields all slices as their drivers published them, pool by pool; the
// pools of a driver follow each other.
func (s *Snapshot) PublishedSlices() iter.Seq[*resourceapi.ResourceSlice] {
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		for p := range s.pools.all() {
			if !p.each(func(e *entry) bool { return yield(e.published) }) {
				return
			}
		}
	}
}

// Device returns a device, unless it is only in slices that a complete newer generation of
// the pool replaces. If several slices have it, the one of the highest generation counts.
func (s *Snapshot) Device(driver, pool, device string) (Device, bool) {
	found, ok := s.pool(driver, pool).find(device)
	return Device(found), ok
}

// CompleteGeneration returns the highest generation of a pool of which all slices exist. The
// devices of older generations are obsolete.
func (s *Snapshot) CompleteGeneration(driver, name string) (generation int64, found bool) {
	p := s.pool(driver, name)
	if p == nil {
		return 0, false
	}
	generation = p.complete()
	return generation, generation != math.MinInt64
}

// Devices yields all devices, in the order of the names of their slices and then in
// that of the slice. A device of a pool that is being replaced appears once for each
// generation.
func (s *Snapshot) Devices() iter.Seq[Device] {
	return func(yield func(Device) bool) {
		for e := range s.slices.all() {
			for i := range e.published.Spec.Devices {
				if !yield(Device{e, i}) {
					return
				}
			}
		}
	}
}

// SliceDevices yields the devices of one slice.
func (s *Snapshot) SliceDevices(name string) iter.Seq[Device] {
	return func(yield func(Device) bool) {
		e, found := s.slices.get(name)
		for i := 0; found && i < len(e.published.Spec.Devices) && yield(Device{e, i}); i++ {
		}
	}
}

// Rules yields the DeviceTaintRules, in the order of their names.
func (s *Snapshot) Rules() iter.Seq[*resourceapi.DeviceTaintRule] { return values(s.rules) }

// Rule returns the DeviceTaintRule of that name, or nil.
func (s *Snapshot) Rule(name string) *resourceapi.DeviceTaintRule {
	found, _ := s.rules.get(name)
	return found.value
}

// Patches yields the ResourceSlicePatches, in the order of their names.
func (s *Snapshot) Patches() iter.Seq[*v1alpha1.ResourceSlicePatch] {
	return func(yield func(*v1alpha1.ResourceSlicePatch) bool) {
		for p := range s.patches.all() {
			if !yield(p.object) {
				return
			}
		}
	}
}

// patch returns the ResourceSlicePatch of that name, or nil.
func (s *Snapshot) patch(name string) *v1alpha1.ResourceSlicePatch {
	found, _ := s.patches.get(name)
	return found.object
}

// Classes yields the DeviceClasses, in the order of their names.
func (s *Snapshot) Classes() iter.Seq[*resourceapi.DeviceClass] { return values(s.classes) }

// Class returns the DeviceClass of that name, or nil.
func (s *Snapshot) Class(name string) *resourceapi.DeviceClass {
	found, _ := s.classes.get(name)
	return found.value
}

func (s *Snapshot) pool(driver, name string) *pool {
	p, _ := s.pools.get(poolKey(driver, name))
	return p
}

// ofDriver yields the pools of a driver.
func (s *Snapshot) ofDriver(driver string) iter.Seq[*pool] {
	return func(yield func(*pool) bool) {
		prefix := poolKey(driver, "")
		for p := range s.pools.from(prefix) {
			if !strings.HasPrefix(p.name, prefix) || !yield(p) {
				return
			}
		}
	}
}

// A PatchReport is the effect of a ResourceSlicePatch on the devices of a [Snapshot], and
// its problems.
type PatchReport struct {
	Patch *v1alpha1.ResourceSlicePatch
	// Problems are the faults of the patch by itself.
	Problems []patch.Problem
	// Report counts slices and devices.
	Report patch.Summary
	// Unfinished is the number of slices that the patch may apply to and that are not evaluated
	// yet.
	Unfinished int
}

// PatchReports returns a report of each patch, in the order of their names. It visits every
// slice that a patch applies to: milliseconds for thousands of slices.
func (s *Snapshot) PatchReports() []PatchReport {
	byName := map[string]*patch.Summary{}
	reports := make([]PatchReport, 0, s.patches.length)
	unfinished := map[poolID]int{}
	for e := range s.slices.all() {
		if e.unfinished {
			unfinished[e.pool()]++
		}
		if e.patched == nil {
			continue
		}
		for p, report := range e.patched.Reports() {
			if byName[p.Object.Name] == nil {
				byName[p.Object.Name] = &patch.Summary{}
			}
			byName[p.Object.Name].Add(report)
		}
	}
	for p := range s.patches.all() {
		report := PatchReport{Patch: p.object, Problems: p.compiled.Problems}
		if found := byName[p.key()]; found != nil {
			report.Report = *found
		}
		for pool, n := range unfinished {
			if p.compiled.Selects(pool.driver, pool.name) {
				report.Unfinished += n
			}
		}
		reports = append(reports, report)
	}
	return reports
}

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

// each yields the slices; it returns false if it was stopped.
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

// complete returns the highest generation of which all slices exist, or math.MinInt64.
// Slices of older generations are obsolete.
func (p *pool) complete() int64 {
	newest := int64(math.MinInt64)
	for _, e := range p.entries {
		if e.generation() > newest && p.isComplete(e.generation()) {
			newest = e.generation()
		}
	}
	return newest
}

func (p *pool) isComplete(generation int64) bool {
	have, want := int64(0), int64(1)
	for _, e := range p.entries {
		if e.generation() == generation {
			have, want = have+1, max(want, e.published.Spec.Pool.ResourceSliceCount)
		}
	}
	return have >= want
}

// find returns the place of a device that is not obsolete. Of several with its name it is
// the one of the highest generation of the pool, then the first by the name of its slice.
func (p *pool) find(device string) (place, bool) {
	if p == nil {
		return place{}, false
	}
	if len(p.entries) >= indexedPool {
		found, ok := p.indexed()[device]
		return found, ok
	}
	var best place
	complete := p.complete()
	for _, e := range p.entries {
		if e.generation() < complete {
			continue
		}
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
	complete := p.complete()
	for _, e := range p.entries {
		if e.generation() < complete {
			continue
		}
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

// deviceIndex returns the index of a device in a slice, or -1.
func deviceIndex(slice *resourceapi.ResourceSlice, name string) int {
	for i := range slice.Spec.Devices {
		if slice.Spec.Devices[i].Name == name {
			return i
		}
	}
	return -1
}

// keyed is what has a place in an ordered list.
type keyed interface{ key() string }

// ordered is an immutable list in the order of the keys, without duplicates. A changed
// list shares all chunks with the old one that the change does not touch. The zero
// value is empty.
type ordered[T keyed] struct {
	chunks [][]T
	length int
}

// chunkLength bounds what one change copies.
const chunkLength = 256

// An edit puts an item in the place of the one with its key, or removes that.
type edit[T keyed] struct {
	key    string
	item   T
	remove bool
}

// get returns the item with a key.
func (o ordered[T]) get(key string) (item T, found bool) {
	chunk := o.chunk(key)
	if chunk < 0 {
		return item, false
	}
	at, found := slices.BinarySearchFunc(o.chunks[chunk], key, func(item T, key string) int { return cmp.Compare(item.key(), key) })
	if found {
		item = o.chunks[chunk][at]
	}
	return item, found
}

// chunk returns the index of the last chunk that begins at or before the key, or -1.
func (o ordered[T]) chunk(key string) int {
	at, found := slices.BinarySearchFunc(o.chunks, key, func(chunk []T, key string) int { return cmp.Compare(chunk[0].key(), key) })
	if found {
		return at
	}
	return at - 1
}

// all yields the items in their order.
func (o ordered[T]) all() iter.Seq[T] { return o.from("") }

// from yields the items that are not before the key, in their order.
func (o ordered[T]) from(key string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for c := max(o.chunk(key), 0); c < len(o.chunks); c++ {
			for _, item := range o.chunks[c] {
				if item.key() >= key && !yield(item) {
					return
				}
			}
		}
	}
}

// apply returns the list with the edits, of which each has a key of its own.
func (o ordered[T]) apply(edits []edit[T]) ordered[T] {
	switch len(edits) {
	case 0:
		return o
	case 1: // what happens all day
		if changed, ok := o.applyOne(edits); ok {
			return changed
		}
	}
	edits = slices.SortedFunc(slices.Values(edits), func(a, b edit[T]) int { return cmp.Compare(a.key, b.key) })
	changed := ordered[T]{chunks: make([][]T, 0, len(o.chunks)+len(edits)/chunkLength+1)}
	for c, chunk := range o.chunks {
		n := len(edits)
		if c+1 < len(o.chunks) {
			n, _ = slices.BinarySearchFunc(edits, o.chunks[c+1][0].key(), func(e edit[T], key string) int { return cmp.Compare(e.key, key) })
		}
		changed.add(chunk, edits[:n])
		edits = edits[n:]
	}
	changed.add(nil, edits)
	return changed
}

// applyOne is apply for a single edit that leaves the number of chunks as it is.
func (o ordered[T]) applyOne(edits []edit[T]) (changed ordered[T], ok bool) {
	if len(o.chunks) == 0 {
		return o, false
	}
	c := max(o.chunk(edits[0].key), 0)
	chunk := merged(o.chunks[c], edits)
	if len(chunk) == 0 || len(chunk) > chunkLength {
		return o, false
	}
	changed = ordered[T]{chunks: slices.Clone(o.chunks), length: o.length + len(chunk) - len(o.chunks[c])}
	changed.chunks[c] = chunk
	return changed, true
}

// add appends a chunk with the edits that fall into it.
func (o *ordered[T]) add(chunk []T, edits []edit[T]) {
	if len(edits) > 0 {
		chunk = merged(chunk, edits)
	}
	o.length += len(chunk)
	for len(chunk) > chunkLength {
		half := chunkLength / 2 // room for what comes
		o.chunks = append(o.chunks, chunk[:half:half])
		chunk = chunk[half:]
	}
	if len(chunk) > 0 {
		o.chunks = append(o.chunks, chunk)
	}
}

// merged returns the items with the edits, both in order.
func merged[T keyed](items []T, edits []edit[T]) []T {
	result := make([]T, 0, len(items)+len(edits))
	for _, e := range edits {
		n, found := slices.BinarySearchFunc(items, e.key, func(item T, key string) int { return cmp.Compare(item.key(), key) })
		result = append(result, items[:n]...)
		if found {
			n++
		}
		items = items[n:]
		if !e.remove {
			result = append(result, e.item)
		}
	}
	return append(result, items...)
}
