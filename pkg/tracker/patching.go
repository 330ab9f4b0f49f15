package tracker

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/patch"
)

// compiledPatch is a patch in a snapshot: the newest version of the object, and what was
// compiled from one that says the same.
type compiledPatch struct {
	object   *v1alpha1.ResourceSlicePatch
	compiled *patch.Patch
}

func (p compiledPatch) key() string { return p.object.Name }

// changePatches replaces the patches of a batch and compiles those anew whose class has
// changed. It marks the slices that they may have matched or match.
func (s *state) changePatches(w *work) (edits []edit[compiledPatch]) {
	for _, p := range s.affected(w) {
		s.replacePatch(w, p, p.Object)
		name := p.Object.Name
		if _, twice := w.patches[name]; !twice {
			edits = append(edits, edit[compiledPatch]{key: name, item: compiledPatch{s.current.Patch(name), s.patches.Get(name)}})
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

// samePatch reports whether two versions of a patch say the same, as after a write of
// the status.
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
