package validate

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// poolGaps are the rules for a slice among the slices of its pool. They only warn:
// a pool is published slice by slice, so what is wrong with it may be right once the
// next slice has come, and a driver must never be stopped by that.
var poolGaps = Table[*resourceapi.ResourceSlice]{
	{
		ID: "pool-device-unique",
		Doc: `A device name is unique in its pool.

Two slices of one generation with a device of the same name make the whole pool
invalid: nothing in it is allocated. ` + poolWarns,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "checks one slice only; the allocator refuses the pool",
		Source:      "KEP-4381, ResourcePool; validatePool in k8s.io/dynamic-resource-allocation/resourceslice",
		Check:       poolDeviceUnique,
	},
	{
		ID: "pool-counter-set-unique",
		Doc: `The name of a counter set is unique in its pool.

Two slices of one generation with a set of the same name make the whole pool invalid:
nothing in it is allocated. ` + poolWarns,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "checks one slice only; the allocator refuses the pool",
		Source:      "KEP-4815, CounterSet; validatePool in k8s.io/dynamic-resource-allocation/resourceslice",
		Check:       poolCounterSetUnique,
	},
	{
		ID: "pool-counter-reference",
		Doc: `A device consumes counters that exist in its pool, and not more than they hold.

A device that refers to a set or counter that does not exist, or needs more than the
set holds, can never be allocated. The rule checks complete pools. ` + poolWarns,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "checks one slice only since 1.35",
		Source:      "KEP-4815, DeviceCounterConsumption",
		Check:       poolCounterReference,
	},
	{
		ID: "pool-slice-count",
		Doc: `The slices of a pool have the same resourceSliceCount, and it is their number.

A pool with fewer slices than resourceSliceCount is incomplete, and none of its devices is
allocated. With more slices of one generation, or with different counts, it never becomes
complete. ` + poolWarns,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "checks one slice only",
		Source:      "KEP-4381, ResourcePool.ResourceSliceCount",
		Check:       poolSliceCount,
	},
	{
		ID: "pool-generation",
		Doc: `A slice has the newest generation of its pool.

Consumers read the newest generation only and ignore the devices of older slices. While a
driver updates its pool, old slices exist for a moment. ` + poolWarns,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "accepts every generation, a smaller one too",
		Source:      "KEP-4381, ResourcePool.Generation",
		Check:       poolGeneration,
	},
}

const poolWarns = `It only warns: a
pool is published slice by slice.`

// maxNeighbours bounds the work for one slice of a very large pool.
const maxNeighbours = 256

// neighbours are the other slices of the pool of slice, of any generation.
func neighbours(slice *resourceapi.ResourceSlice, c Pass) []*resourceapi.ResourceSlice {
	if c.ClusterView == nil {
		return nil
	}
	all := c.ClusterView.Pool(slice.Spec.Driver, slice.Spec.Pool.Name)
	if len(all) > maxNeighbours {
		return nil
	}
	var others []*resourceapi.ResourceSlice
	for _, other := range all {
		if other.Name != slice.Name {
			others = append(others, other)
		}
	}
	return others
}

// siblings are the neighbours of the same generation.
func siblings(slice *resourceapi.ResourceSlice, c Pass) []*resourceapi.ResourceSlice {
	return slices.DeleteFunc(neighbours(slice, c), func(other *resourceapi.ResourceSlice) bool {
		return other.Spec.Pool.Generation != slice.Spec.Pool.Generation
	})
}

func poolDeviceUnique(slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	holders := map[string]string{}
	for _, other := range siblings(slice, c) {
		for i := range other.Spec.Devices {
			holders[other.Spec.Devices[i].Name] = other.Name
		}
	}
	if len(holders) == 0 {
		return nil
	}
	for at, device := range walk.Devices(slice) {
		if holder, taken := holders[device.Name]; taken {
			errs = append(errs, alsoIn(at.Child("name"), device.Name, holder))
		}
	}
	return errs
}

func poolCounterSetUnique(slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	if len(slice.Spec.SharedCounters) == 0 {
		return nil
	}
	holders := map[string]string{}
	for _, other := range siblings(slice, c) {
		for _, set := range other.Spec.SharedCounters {
			holders[set.Name] = other.Name
		}
	}
	list := field.NewPath("spec", "sharedCounters")
	for i, set := range walk.Bounded(slice.Spec.SharedCounters, resourceapi.ResourceSliceMaxCounterSets) {
		if holder, taken := holders[set.Name]; taken {
			errs = append(errs, alsoIn(walk.ItemPath(list, i, set.Name).Child("name"), set.Name, holder))
		}
	}
	return errs
}

// alsoIn reports a name that another slice of the pool has.
func alsoIn(at *field.Path, name, holder string) *field.Error {
	err := field.Duplicate(at, name)
	err.Detail = "the slice " + holder + " of this pool and generation has it too"
	return err
}

func poolCounterReference(slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	others := siblings(slice, c)
	if c.ClusterView == nil || int64(len(others)+1) != slice.Spec.Pool.ResourceSliceCount {
		return nil
	}
	sets := map[string]map[string]resourceapi.Counter{}
	for _, member := range append(others, slice) {
		for _, set := range member.Spec.SharedCounters {
			sets[set.Name] = set.Counters
		}
	}
	for at, device := range walk.Devices(slice) {
		list := at.Child("consumesCounters")
		for i, consumption := range walk.Bounded(device.ConsumesCounters, resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice) {
			errs = append(errs, overdrawn(list.Index(i), consumption, sets)...)
		}
	}
	return errs
}

// overdrawn reports what a device takes from a set that does not exist.
func overdrawn(at *field.Path, consumption resourceapi.DeviceCounterConsumption, sets map[string]map[string]resourceapi.Counter) (errs field.ErrorList) {
	set, exists := sets[consumption.CounterSet]
	if !exists {
		return field.ErrorList{field.NotFound(at.Child("counterSet"), consumption.CounterSet)}
	}
	for _, name := range slices.Sorted(maps.Keys(consumption.Counters)) {
		counter, exists := set[name]
		needed := consumption.Counters[name].Value
		switch {
		case !exists:
			errs = append(errs, field.NotFound(at.Child("counters").Key(name), name))
		case needed.Cmp(counter.Value) > 0:
			errs = append(errs, field.Invalid(at.Child("counters").Key(name).Child("value"), needed.String(),
				fmt.Sprintf("the set %s has only %s", consumption.CounterSet, counter.Value.String())))
		}
	}
	return errs
}

func poolSliceCount(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	at := field.NewPath("spec", "pool", "resourceSliceCount")
	others := siblings(slice, c)
	count := slice.Spec.Pool.ResourceSliceCount
	for _, other := range others {
		if other.Spec.Pool.ResourceSliceCount != count {
			return field.ErrorList{field.Invalid(at, count, fmt.Sprintf(
				"the slice %s of this pool and generation says %d", other.Name, other.Spec.Pool.ResourceSliceCount))}
		}
	}
	if n := int64(len(others) + 1); len(others) > 0 && n > count {
		return field.ErrorList{field.Invalid(at, count, fmt.Sprintf("the pool has %d slices of this generation", n))}
	}
	return nil
}

func poolGeneration(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
	for _, other := range neighbours(slice, c) {
		if newer := other.Spec.Pool.Generation; newer > slice.Spec.Pool.Generation {
			return field.ErrorList{field.Invalid(field.NewPath("spec", "pool", "generation"), slice.Spec.Pool.Generation,
				fmt.Sprintf("the slice %s of this pool has %d: consumers ignore the devices of this slice", other.Name, newer))}
		}
	}
	return nil
}
