package placement

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// A PoolID names a pool of a driver.
type PoolID struct{ Driver, Name string }

// PoolOf returns the pool of a slice.
func PoolOf(slice *resourceapi.ResourceSlice) PoolID {
	return PoolID{slice.Spec.Driver, slice.Spec.Pool.Name}
}

// A Pool is the newest generation of a pool.
type Pool struct {
	Generation int64
	// Slices is how many kube-scheduler counts, Total how many the driver publishes.
	Slices, Total int64
	// Invalid is why kube-scheduler allocates no device of it, such as "has the device gpu-0 twice"; empty if it does.
	Invalid string
	// devices are the names of all.
	devices map[string]bool
	// sets are the counter sets and counters that are defined, consumed are devices that consume a counter.
	sets     map[string]bool
	counters map[counter]bool
	consumed map[counter]string
}

// A counter is one of a counter set.
type counter struct{ set, name string }

// Pools returns the newest generation of each pool, as a scheduler with these features sees it.
func Pools(all []*resourceapi.ResourceSlice, features structured.Features) map[PoolID]Pool {
	pools := map[PoolID]Pool{}
	for _, s := range all {
		id := PoolOf(s)
		p, known := pools[id]
		if known && s.Spec.Pool.Generation < p.Generation {
			continue
		}
		if !known || s.Spec.Pool.Generation > p.Generation {
			p = Pool{Generation: s.Spec.Pool.Generation, Total: s.Spec.Pool.ResourceSliceCount, devices: map[string]bool{},
				sets: map[string]bool{}, counters: map[counter]bool{}, consumed: map[counter]string{}}
		}
		if !ignored(s, features) { // without it, its pool is incomplete
			p.Slices++
			p.add(s, features)
		}
		pools[id] = p
	}
	for id, p := range pools {
		p.checkCounters()
		pools[id] = p
	}
	return pools
}

// ignored reports whether the scheduler does not count a slice.
func ignored(slice *resourceapi.ResourceSlice, features structured.Features) bool {
	if features.CompatibilityGroups {
		return false
	}
	for i := range slice.Spec.Devices {
		for _, consumed := range slice.Spec.Devices[i].ConsumesCounters {
			if len(consumed.CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}

// add adds the names and counters of a slice. A scheduler without partitions does not check counters.
func (p *Pool) add(slice *resourceapi.ResourceSlice, features structured.Features) {
	for i := range slice.Spec.Devices {
		d := &slice.Spec.Devices[i]
		if p.devices[d.Name] {
			p.Invalid = "has the device " + d.Name + " twice"
		}
		p.devices[d.Name] = true
		if !features.PartitionableDevices {
			continue
		}
		for _, consumed := range d.ConsumesCounters {
			for name := range consumed.Counters {
				p.consumed[counter{consumed.CounterSet, name}] = d.Name
			}
		}
	}
	if !features.PartitionableDevices {
		return
	}
	for _, set := range slice.Spec.SharedCounters {
		if p.sets[set.Name] {
			p.Invalid = "has the counter set " + set.Name + " twice"
		}
		p.sets[set.Name] = true
		for name := range set.Counters {
			p.counters[counter{set.Name, name}] = true
		}
	}
}

// checkCounters checks, once all slices are added, that the counters exist that devices consume.
func (p *Pool) checkCounters() {
	first := counter{}
	for of := range p.consumed {
		if !p.counters[of] && (first == counter{} || of.set+"/"+of.name < first.set+"/"+first.name) {
			first = of
		}
	}
	if p.Invalid == "" && first != (counter{}) {
		p.Invalid = fmt.Sprintf("has no counter %s in the counter set %s, which device %s consumes", first.name, first.set, p.consumed[first])
	}
	p.devices, p.sets, p.counters, p.consumed = nil, nil, nil, nil
}
