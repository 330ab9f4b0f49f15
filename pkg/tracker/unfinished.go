package tracker

import (
	"context"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/dra-steward/dra-steward/pkg/patch"
)

// stepCost bounds what the expressions of patches may cost before the next view is published:
// what is left is evaluated for later views, and rules do not wait for it.
const stepCost = 2 * patch.SliceCost

// unfinished are the slices whose patches are not evaluated yet, in the order in which they
// came. The zero value is empty.
type unfinished struct {
	queue []string
	is    map[string]bool
}

func (u *unfinished) add(name string) {
	if u.is == nil {
		u.is = map[string]bool{}
	}
	if !u.is[name] {
		u.is[name], u.queue = true, append(u.queue, name)
	}
}

func (u *unfinished) removeFirst() {
	delete(u.is, u.queue[0])
	u.queue = u.queue[1:]
}

// publish notes the slices of a batch that patches have to be evaluated for, and returns all of
// the batch as their drivers published them.
func (s *state) publish(w *work) map[string]*resourceapi.ResourceSlice {
	published := make(map[string]*resourceapi.ResourceSlice, len(w.stored))
	for _, name := range slices.Sorted(maps.Keys(w.stored)) {
		if w.stored[name] == nil {
			s.patches.Forget(name)
			continue
		}
		old, _ := s.current.slices.get(name)
		published[name] = publishedSlice(old, w.stored[name])
		if old == nil || old.published != published[name] || w.patched[name] {
			s.unfinished.add(name)
		}
	}
	return published
}

// evaluate applies the patches to the slices that wait for that, until they have cost too much
// or ctx ends. The slices join the batch.
func (s *state) evaluate(ctx context.Context, w *work, published map[string]*resourceapi.ResourceSlice) map[string]*patch.Result {
	done, spent := map[string]*patch.Result{}, uint64(0)
	for len(s.unfinished.queue) > 0 && (s.stepCost == 0 || spent < s.stepCost) {
		name := s.unfinished.queue[0]
		if stored, changed := w.stored[name]; changed && stored == nil {
			s.unfinished.removeFirst()
			continue
		}
		slice := published[name]
		if slice == nil {
			e, exists := s.current.slices.get(name)
			if !exists {
				s.unfinished.removeFirst()
				continue
			}
			slice, w.stored[name] = e.published, e.stored
			published[name] = slice
		}
		result, cost, err := s.patches.ApplyWithin(ctx, slice, s.stepCost-min(spent, s.stepCost))
		if err != nil {
			break
		}
		s.unfinished.removeFirst()
		done[name] = result
		spent += cost
	}
	return done
}

// lastResult is a slice, stored and as its driver published it, whose patches are not evaluated
// yet: with the values that each of its devices has had, where its driver has not changed it.
// A slice that is new has the values that are stored.
func lastResult(old *entry, stored, published *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	switch {
	case old == nil:
		return stored
	case old.published == published:
		return old.patchedSlice
	}
	before := make(map[string]int, len(old.published.Spec.Devices))
	for i := range old.published.Spec.Devices {
		before[old.published.Spec.Devices[i].Name] = i
	}
	devices := slices.Clone(published.Spec.Devices)
	for i := range devices {
		d := &devices[i]
		at, known := before[d.Name]
		if !known {
			continue
		}
		was := &old.published.Spec.Devices[at]
		if equality.Semantic.DeepEqual(was.Attributes, d.Attributes) && equality.Semantic.DeepEqual(was.Capacity, d.Capacity) {
			d.Attributes, d.Capacity = old.patchedSlice.Spec.Devices[at].Attributes, old.patchedSlice.Spec.Devices[at].Capacity
		}
	}
	return withDevices(published, devices)
}
