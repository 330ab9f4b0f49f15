package patch

import (
	"iter"
	"maps"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A Set is all patches of a cluster, compiled, with what their expressions say of the
// devices of slices. It is for who keeps many slices up to date. The zero value is empty
// and ready for use; it is used by one goroutine at a time.
type Set struct {
	compiler    Compiler
	byName      map[string]*Patch
	evaluations map[string]*Evaluation // by the name of the slice
}

// Put compiles a patch, puts it in the place of that of its name, and returns both. class
// is the DeviceClass that the filter names, nil if there is none.
func (s *Set) Put(object *v1alpha1.ResourceSlicePatch, class *resourceapi.DeviceClass) (old, now *Patch) {
	if s.byName == nil {
		s.byName = map[string]*Patch{}
	}
	old, now = s.byName[object.Name], s.compiler.Compile(object, class)
	s.byName[object.Name] = now
	return old, now
}

// Delete removes the patch of a name and returns it, nil if there was none.
func (s *Set) Delete(name string) *Patch {
	old := s.byName[name]
	delete(s.byName, name)
	return old
}

// Get returns the patch of a name, nil if there is none.
func (s *Set) Get(name string) *Patch { return s.byName[name] }

// Len is the number of patches.
func (s *Set) Len() int { return len(s.byName) }

// All yields the patches in no particular order.
func (s *Set) All() iter.Seq[*Patch] { return maps.Values(s.byName) }

// Apply applies the patches to a slice; nil if none matches a device of it or fails to. It
// remembers, by the name of the slice, what expressions say of its devices: see
// [Set.Forget].
func (s *Set) Apply(slice *resourceapi.ResourceSlice) *Result {
	var matches []Match
	evaluation := s.evaluations[slice.Name]
	selected := false
	for _, candidate := range s.byName {
		if !candidate.Selects(slice.Spec.Driver, slice.Spec.Pool.Name) {
			continue
		}
		if !selected {
			selected = true
			evaluation = s.evaluate(evaluation, slice)
		}
		if m := candidate.Match(evaluation); m.Devices > 0 || m.Failures.Devices > 0 {
			matches = append(matches, m)
		}
	}
	if !selected {
		s.Forget(slice.Name)
	} else {
		evaluation.views = nil
	}
	if len(matches) == 0 {
		return nil
	}
	result := Merge(slice, matches)
	return &result
}

// evaluate returns the Evaluation of a slice, given that of its last version.
func (s *Set) evaluate(last *Evaluation, slice *resourceapi.ResourceSlice) *Evaluation {
	if last == nil {
		last = NewEvaluation(slice)
	} else {
		last = last.Next(slice)
	}
	if s.evaluations == nil {
		s.evaluations = map[string]*Evaluation{}
	}
	s.evaluations[slice.Name] = last
	return last
}

// Forget forgets what expressions say of a slice that is gone.
func (s *Set) Forget(slice string) { delete(s.evaluations, slice) }
