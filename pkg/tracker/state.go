package tracker

import (
	"cmp"
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// A Kind is the kind of an object that a tracker reads.
type Kind string

// The kinds that a tracker reads.
const (
	SliceKind Kind = "ResourceSlice"
	RuleKind  Kind = "DeviceTaintRule"
	PatchKind Kind = "ResourceSlicePatch"
	ClassKind Kind = "DeviceClass"
)

// allKinds are all of them.
func allKinds() []Kind { return []Kind{SliceKind, RuleKind, PatchKind, ClassKind} }

// objectKey names an object.
type objectKey struct {
	kind Kind
	name string
}

// state is what the writer knows. Only one goroutine uses it.
type state struct {
	current   *Snapshot
	rules     rules
	ruleNames map[string]*rule
	patches   patch.Set
	// stepCost bounds what the patches may cost in a batch; 0 is no bound.
	stepCost   uint64
	unfinished unfinished
	// poolDrivers are the drivers, by the names of their pools.
	poolDrivers map[string]map[string]bool
	scratch     hits
	// changed are all deltas of the last batch, including those that handlers do not see.
	changed []delta
}

func newState() *state {
	return &state{current: &Snapshot{}, ruleNames: map[string]*rule{}, poolDrivers: map[string]map[string]bool{}}
}

// delta is the change of one slice; nil where the slice does not exist.
type delta struct{ old, new *entry }

func (d delta) name() string {
	if d.new != nil {
		return d.new.key()
	}
	return d.old.key()
}

// work is one batch of changes.
type work struct {
	stored  map[string]*resourceapi.ResourceSlice // nil: deleted
	dirty   map[*entry]bool
	patched map[string]bool // the dirty ones that a patch has changed for
	classes map[string]*resourceapi.DeviceClass
	patches map[string]*v1alpha1.ResourceSlicePatch
	// budget is how many more devices may be checked to find the slices that a rule
	// matches; below zero all slices count as changed, which is cheaper.
	budget     int
	ruleEdits  []edit[object[*resourceapi.DeviceTaintRule]]
	classEdits []edit[object[*resourceapi.DeviceClass]]
}

// apply works in a batch: the latest state of each object, nil for one that is gone.
// The new snapshot is in s.current; the deltas are those that a reader of merged
// slices can see, in the order of the names.
func (s *state) apply(batch map[objectKey]any) []delta {
	return s.applyUntil(context.Background(), batch)
}

// applyUntil is apply that evaluates patches until ctx ends.
func (s *state) applyUntil(ctx context.Context, batch map[objectKey]any) []delta {
	w := &work{
		stored: map[string]*resourceapi.ResourceSlice{}, dirty: map[*entry]bool{},
		patched: map[string]bool{}, patches: map[string]*v1alpha1.ResourceSlicePatch{}, classes: map[string]*resourceapi.DeviceClass{},
		budget: 4*s.current.devices + 4*s.current.slices.length,
	}
	for key, object := range batch {
		switch key.kind {
		case SliceKind:
			w.stored[key.name], _ = object.(*resourceapi.ResourceSlice)
		case RuleKind:
			rule, _ := object.(*resourceapi.DeviceTaintRule)
			w.ruleEdits = append(w.ruleEdits, editOf(key.name, rule))
			s.changeRule(w, key.name, rule)
		case PatchKind:
			w.patches[key.name], _ = object.(*v1alpha1.ResourceSlicePatch)
		case ClassKind:
			class, _ := object.(*resourceapi.DeviceClass)
			w.classEdits = append(w.classEdits, editOf(key.name, class))
			w.classes[key.name] = class
		}
	}
	patchEdits := s.changePatches(w)
	deltas, visible := s.merge(ctx, w)
	s.changed = deltas
	next := &Snapshot{
		revision: s.current.revision + 1,
		devices:  s.current.devices,
		rules:    s.current.rules.apply(w.ruleEdits),
		patches:  s.current.patches.apply(patchEdits),
		classes:  s.current.classes.apply(w.classEdits),
	}
	next.unfinished = len(s.unfinished.queue)
	s.index(next, deltas)
	s.current = next
	return visible
}

// changeRule replaces a rule and marks the slices that it matched or matches.
func (s *state) changeRule(w *work, name string, changed *resourceapi.DeviceTaintRule) {
	old := s.ruleNames[name]
	if changed == nil {
		delete(s.ruleNames, name)
	} else {
		r := newRule(changed)
		if old != nil && old.same(r) {
			return
		}
		s.ruleNames[name] = r
		s.rules.add(r)
		s.mark(w, r)
	}
	if old != nil {
		s.rules.remove(old)
		s.mark(w, old)
	}
}

// mark marks the slices that a rule matches.
func (s *state) mark(w *work, r *rule) {
	if r.selector == nil || w.budget < 0 {
		return
	}
	for e := range s.candidates(r.selector) {
		w.budget -= 1 + len(e.published.Spec.Devices)
		if w.budget < 0 {
			return
		}
		if r.selector.Device == nil || deviceIndex(e.published, *r.selector.Device) >= 0 {
			w.dirty[e] = true
		}
	}
}

// candidates yields the slices of the driver and pool that a selector names.
func (s *state) candidates(selector *resourceapi.DeviceTaintSelector) func(func(*entry) bool) {
	return func(yield func(*entry) bool) {
		switch {
		case selector.Driver != nil && selector.Pool != nil:
			s.current.pool(*selector.Driver, *selector.Pool).each(yield)
		case selector.Driver != nil:
			for p := range s.current.ofDriver(*selector.Driver) {
				if !p.each(yield) {
					return
				}
			}
		case selector.Pool != nil:
			for driver := range s.poolDrivers[*selector.Pool] {
				if !s.current.pool(driver, *selector.Pool).each(yield) {
					return
				}
			}
		default:
			s.current.slices.all()(yield)
		}
	}
}

// merge computes the slices that have changed or that a changed rule matches. deltas
// are all entries that are new, visible those that look different.
func (s *state) merge(ctx context.Context, w *work) (deltas, visible []delta) {
	stale := maps.Keys(w.dirty)
	if w.budget < 0 {
		stale = s.current.slices.all()
	}
	for e := range stale {
		if _, changed := w.stored[e.key()]; !changed {
			w.stored[e.key()] = e.stored
		}
	}
	published := s.publish(w)
	done := s.evaluate(ctx, w, published)
	for name, stored := range w.stored {
		old, _ := s.current.slices.get(name)
		d := delta{old: old}
		if stored != nil {
			slice := published[name]
			s.rules.match(slice, &s.scratch)
			if result, finished := done[name]; finished || !s.unfinished.is[name] {
				if !finished {
					result = old.patched
				}
				d.new = newEntry(slice, result, &s.scratch)
			} else {
				d.new = newUnfinished(lastResult(old, stored, slice), slice, &s.scratch)
				if old != nil && old.published == slice {
					d.new.patched = old.patched
				}
			}
			d.new.stored = stored
		}
		switch {
		case old == nil && d.new == nil || old != nil && d.new != nil && d.new.sameInputs(old):
			continue
		case old == nil || d.new == nil || !d.new.sameView(old):
			visible = append(visible, d)
		}
		deltas = append(deltas, d)
	}
	byName := func(a, b delta) int { return cmp.Compare(a.name(), b.name()) }
	slices.SortFunc(deltas, byName)
	slices.SortFunc(visible, byName)
	return deltas, visible
}

// index gives the next snapshot its slices and pools.
func (s *state) index(next *Snapshot, deltas []delta) {
	edits := make([]edit[*entry], 0, len(deltas))
	touched := map[poolID][]edit[*entry]{}
	for _, d := range deltas {
		name := d.name()
		edits = append(edits, edit[*entry]{key: name, item: d.new, remove: d.new == nil})
		if d.old != nil {
			next.devices -= len(d.old.published.Spec.Devices)
			if d.new == nil || d.new.pool() != d.old.pool() {
				touched[d.old.pool()] = append(touched[d.old.pool()], edit[*entry]{key: name, remove: true})
			}
		}
		if d.new != nil {
			next.devices += len(d.new.stored.Spec.Devices)
			touched[d.new.pool()] = append(touched[d.new.pool()], edit[*entry]{key: name, item: d.new})
		}
	}
	next.slices = s.current.slices.apply(edits)
	pools := make([]edit[*pool], 0, len(touched))
	for id, edits := range touched {
		p := s.current.pool(id.driver, id.name).with(id, edits)
		s.remember(id, len(p.entries) > 0)
		pools = append(pools, edit[*pool]{key: p.name, item: p, remove: len(p.entries) == 0})
	}
	next.pools = s.current.pools.apply(pools)
}

// remember keeps the index of the drivers by the names of their pools.
func (s *state) remember(id poolID, exists bool) {
	drivers := s.poolDrivers[id.name]
	switch {
	case exists && drivers == nil:
		s.poolDrivers[id.name] = map[string]bool{id.driver: true}
	case exists:
		drivers[id.driver] = true
	case len(drivers) <= 1:
		delete(s.poolDrivers, id.name)
	default:
		delete(drivers, id.driver)
	}
}

// compiledPatch is a patch in a snapshot: the newest version of the object, and the result
// of compiling an equivalent version.
type compiledPatch struct {
	object   *v1alpha1.ResourceSlicePatch
	compiled *patch.Patch
}

func (p compiledPatch) key() string { return p.object.Name }

// changePatches replaces the patches of a batch and compiles again those whose class has
// changed. It marks the slices that they match or may have matched.
func (s *state) changePatches(w *work) (edits []edit[compiledPatch]) {
	for _, p := range s.affected(w) {
		s.replacePatch(w, p, p.Object)
		name := p.Object.Name
		if _, twice := w.patches[name]; !twice {
			edits = append(edits, edit[compiledPatch]{key: name, item: compiledPatch{s.current.patch(name), s.patches.Get(name)}})
		}
	}
	for name, changed := range w.patches {
		old := s.patches.Get(name)
		if old == nil || changed == nil || !samePatch(old.Object, changed) {
			s.replacePatch(w, old, changed)
		}
		edits = append(edits, edit[compiledPatch]{key: name, item: compiledPatch{changed, s.patches.Get(name)}, remove: changed == nil})
	}
	return edits
}

// affected returns the patches whose class changes in a batch.
func (s *state) affected(w *work) (affected []*patch.Patch) {
	for p := range s.patches.All() {
		class := className(p.Object)
		changed, ok := w.classes[class]
		if class != "" && ok && !sameClass(s.current.Class(class), changed) {
			affected = append(affected, p)
		}
	}
	return affected
}

func sameClass(a, b *resourceapi.DeviceClass) bool {
	return a != nil && b != nil && equality.Semantic.DeepEqual(a.Spec.Selectors, b.Spec.Selectors)
}

// replacePatch puts a patch, nil for none, in the place of another one.
func (s *state) replacePatch(w *work, old *patch.Patch, changed *v1alpha1.ResourceSlicePatch) {
	if old != nil {
		s.patches.Delete(old.Object.Name)
		s.markPatch(w, old)
	}
	if changed != nil {
		_, now := s.patches.Put(changed, s.classOf(w, changed))
		s.markPatch(w, now)
	}
}

// samePatch reports whether two versions of a patch have the same effect, as after a write
// of the status.
func samePatch(a, b *v1alpha1.ResourceSlicePatch) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.CreationTimestamp.Equal(&b.CreationTimestamp) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// className returns the name of the class in the filter of a patch, "" for none.
func className(object *v1alpha1.ResourceSlicePatch) string {
	if f := object.Spec.Devices.Filter; f != nil && f.DeviceClassName != nil {
		return *f.DeviceClassName
	}
	return ""
}

// classOf returns the class of the filter, as it is after the batch.
func (s *state) classOf(w *work, object *v1alpha1.ResourceSlicePatch) *resourceapi.DeviceClass {
	name := className(object)
	if name == "" {
		return nil
	}
	if changed, ok := w.classes[name]; ok {
		return changed
	}
	return s.current.Class(name)
}

// markPatch marks the slices that a patch may match.
func (s *state) markPatch(w *work, p *patch.Patch) {
	for pool := range s.current.pools.all() {
		if id := pool.entries[0].pool(); p.Selects(id.driver, id.name) {
			for _, e := range pool.entries {
				w.patched[e.key()] = true
				w.dirty[e] = true
			}
		}
	}
}

// sameDevices reports whether two merged slices of one published one differ in nothing
// but taints.
func sameDevices(a, b *resourceapi.ResourceSlice) bool {
	return slices.EqualFunc(a.Spec.Devices, b.Spec.Devices, func(a, b resourceapi.Device) bool {
		return equality.Semantic.DeepEqual(a.Attributes, b.Attributes) && equality.Semantic.DeepEqual(a.Capacity, b.Capacity)
	})
}

// Merge returns the view of a cluster in which there is nothing but objects: of the
// kinds that a tracker reads, others are left out. Of several objects of one name the
// last one counts.
func Merge(objects ...any) *Snapshot { return mergerOf(objects).merge(objects) }
