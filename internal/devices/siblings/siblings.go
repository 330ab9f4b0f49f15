// Package siblings finds devices that share counters, such as the partitions of one GPU. Its
// function is pure.
package siblings

import (
	"iter"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A pool is the newest generation of one with named devices.
type pool struct {
	generation int64
	slices     []*resourceapi.ResourceSlice
	named      map[string]bool
}

type poolID struct{ driver, name string }

// Of returns the devices of published slices that consume counters of a counter set of which one of
// the named devices consumes some, and that are not named themselves, in their order. A device
// that has counters of two sets has siblings in both; these are not siblings of each other.
func Of(published iter.Seq[*resourceapi.ResourceSlice], names iter.Seq[usage.DeviceID]) (found []usage.DeviceID) {
	pools := map[poolID]*pool{}
	for id := range names {
		of := poolID{id.Driver, id.Pool}
		if pools[of] == nil {
			pools[of] = &pool{generation: math.MinInt64, named: map[string]bool{}}
		}
		pools[of].named[id.Device] = true
	}
	if len(pools) == 0 {
		return nil
	}
	for slice := range published {
		if p := pools[poolID{slice.Spec.Driver, slice.Spec.Pool.Name}]; p != nil {
			p.add(slice)
		}
	}
	for id, p := range pools {
		for _, device := range p.siblings() {
			found = append(found, usage.DeviceID{Driver: id.driver, Pool: id.name, Device: device})
		}
	}
	slices.SortFunc(found, usage.DeviceID.Compare)
	return slices.Compact(found)
}

// add keeps a slice of the newest generation.
func (p *pool) add(slice *resourceapi.ResourceSlice) {
	switch generation := slice.Spec.Pool.Generation; {
	case generation < p.generation:
		return
	case generation > p.generation:
		p.generation, p.slices = generation, nil
	}
	p.slices = append(p.slices, slice)
}

// siblings are the names of the devices that share a counter set with named ones.
func (p *pool) siblings() (names []string) {
	sets := map[string]bool{}
	p.each(func(d *resourceapi.Device, set string) {
		sets[set] = sets[set] || p.named[d.Name]
	})
	p.each(func(d *resourceapi.Device, set string) {
		if sets[set] && !p.named[d.Name] {
			names = append(names, d.Name)
		}
	})
	return names
}

// each calls f for each counter set of each device.
func (p *pool) each(f func(d *resourceapi.Device, set string)) {
	for _, slice := range p.slices {
		for i := range slice.Spec.Devices {
			for _, consumed := range slice.Spec.Devices[i].ConsumesCounters {
				f(&slice.Spec.Devices[i], consumed.CounterSet)
			}
		}
	}
}
