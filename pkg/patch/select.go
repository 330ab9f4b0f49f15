package patch

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A Selection is what the selector of a DeviceDrain finds.
type Selection struct {
	// Devices are those that match, in their order, each once.
	Devices []v1alpha1.DeviceName
	// Problems are expressions that do not compile.
	Problems []Problem
	// Failures are about devices that an expression failed for.
	Failures Failures
	// More says that the limit of cost was reached before all devices were looked at.
	More bool
}

// Select finds the devices of a selector in slices, as their drivers published them; of
// each pool in those of the highest generation. limit bounds what the expressions may
// cost together, in the units of [MaxCost]; 0 is no bound.
func (c *Compiler) Select(selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice], limit uint64) (found Selection) {
	p := &Patch{filter: v1alpha1.DevicePatchFilter{Driver: selector.Driver, Pool: selector.Pool}}
	c.add(p, selector.Selectors, "spec.selector.selectors")
	if found.Problems = p.Problems; p.unusable {
		return found
	}
	devices, spent := map[v1alpha1.DeviceName]struct{}{}, uint64(0)
	for _, slice := range newest(p, all) {
		e := NewEvaluation(slice)
		if limit > 0 {
			if spent >= limit {
				found.More = true
				break
			}
			e.Limit = limit - spent
		}
		m := p.Match(e)
		spent += e.Spent()
		if m.Failures.Devices > 0 && found.Failures.Devices == 0 {
			found.Failures.First = m.Failures.First
		}
		found.Failures.Devices += m.Failures.Devices
		for i := range slice.Spec.Devices {
			if m.Has(i) {
				devices[v1alpha1.DeviceName{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}] = struct{}{}
			}
		}
	}
	found.Devices = slices.SortedFunc(maps.Keys(devices), func(a, b v1alpha1.DeviceName) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
	})
	return found
}

// newest returns the slices that a patch may apply to, of the highest generation of
// their pools.
func newest(p *Patch, all iter.Seq[*resourceapi.ResourceSlice]) (kept []*resourceapi.ResourceSlice) {
	type pool struct{ driver, name string }
	generations := map[pool]int64{}
	for slice := range all {
		if p.Selects(slice.Spec.Driver, slice.Spec.Pool.Name) {
			of := pool{slice.Spec.Driver, slice.Spec.Pool.Name}
			generations[of] = max(generations[of], slice.Spec.Pool.Generation)
			kept = append(kept, slice)
		}
	}
	return slices.DeleteFunc(kept, func(s *resourceapi.ResourceSlice) bool {
		return s.Spec.Pool.Generation < generations[pool{s.Spec.Driver, s.Spec.Pool.Name}]
	})
}
