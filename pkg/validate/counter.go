package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// counterRules are the rules for shared counters and the devices that consume them.
var counterRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "counter-sets",
		Doc: `A slice has at most 8 sets of counters, each with a name of its own.

The name is a DNS label. Devices say by it what they take away from the others.`,
		Class:  Mirror,
		Server: "the same, since 1.35; any number of sets in 1.34",
		Source: "KEP-4815, CounterSet, ResourceSliceMaxCounterSets",
		Check:  counterSets,
	},
	{
		ID: "counter-set-counters",
		Doc: `A set has 1 to 32 counters, named by DNS labels.

A set without a counter gives nothing to share.`,
		Class:  Mirror,
		Server: "the same, since 1.35; 32 counters in all sets together in 1.34",
		Source: "KEP-4815, CounterSet.Counters, ResourceSliceMaxCountersPerCounterSet",
		Check: func(slice *resourceapi.ResourceSlice, c Conditions) field.ErrorList {
			return counterSetCounters(nil, slice, c)
		},
		Update: counterSetCounters,
	},
	{
		ID: "device-counters",
		Doc: `A device consumes counters of at most 2 sets, and names each set once.

Of each set it consumes 1 to 32 counters. Sets and counters are named by DNS labels.`,
		Class:  Mirror,
		Server: "the same, since 1.35; in 1.34 32 counters of a device and 1024 of a slice, which must exist in it",
		Source: "KEP-4815, DeviceCounterConsumption, ResourceSliceMaxDeviceCounterConsumptionsPerDevice",
		Check:  everyDevice(deviceCounters),
		Update: everyDeviceUpdate(deviceCounters),
	},
	{
		ID: "device-counters-known",
		Doc: `The counters that a device consumes are those of its slice.

Since 1.35 they stand in another slice of the pool, and no API server looks there.`,
		Class:  Mirror,
		Server: "the same, in 1.34",
		Source: "KEP-4815, validateDevice of 1.34",
		Check:  knownCounters,
	},
	{
		ID: "counter-compatibility",
		Doc: `The counters that a device consumes of a set name at most 2 compatibility groups.

Each once, as a DNS label.`,
		Class:  Mirror,
		Server: "the same, since 1.37, with DRADeviceCompatibilityGroups",
		Source: "KEP-5963, DeviceCompatibilityGroupsMaxSize",
		Check:  everyDevice(compatibilityGroups),
		Update: everyDeviceUpdate(compatibilityGroups),
	},
}

// The numbers of 1.34, which counted otherwise than later API servers.
const (
	maxSharedCounters134    = 32
	maxCountersPerDevice134 = 32
	maxCountersPerSlice134  = 1024
)

func setPlaces(slice *resourceapi.ResourceSlice) *places {
	sets := slice.Spec.SharedCounters
	return &places{list: field.NewPath("spec", "sharedCounters"), length: len(sets), name: func(i int) string { return sets[i].Name }}
}

func counterSets(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	sets, places := slice.Spec.SharedCounters, setPlaces(slice)
	if c.Profile.Since(35) && len(sets) > resourceapi.ResourceSliceMaxCounterSets {
		return atMost(places.list, len(sets), resourceapi.ResourceSliceMaxCounterSets)
	}
	for i, set := range sets {
		if set.Name == "" {
			errs = append(errs, field.Required(places.at(i).Child("name"), "name the set"))
		} else {
			errs = append(errs, label(places.at(i).Child("name"), set.Name)...)
		}
		if !places.isFirst(i) {
			errs = append(errs, field.Duplicate(duplicate(places.at(i), "name", c), set.Name))
		}
	}
	return errs
}

func counterSetCounters(old, slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	sets, places := slice.Spec.SharedCounters, setPlaces(slice)
	if !c.Profile.Since(35) {
		n := 0
		for _, set := range sets {
			n += len(set.Counters)
		}
		errs = total(places.list, "shared counters", n, maxSharedCounters134)
	}
	for i, set := range judged(sets, resourceapi.ResourceSliceMaxCounterSets, c) {
		all := counters{set.Counters, resourceapi.ResourceSliceMaxCountersPerCounterSet, nil, true}
		if old != nil {
			all.stored = storedCounters(old, set.Name)
		}
		errs = append(errs, all.check(func() *field.Path { return places.at(i).Child("counters") }, c)...)
	}
	return errs
}

func storedCounters(old *resourceapi.ResourceSlice, name string) map[string]resourceapi.Counter {
	for _, set := range old.Spec.SharedCounters {
		if set.Name == name {
			return set.Counters
		}
	}
	return nil
}

// counters are the counters of a set, or those that a device consumes.
type counters struct {
	values map[string]resourceapi.Counter
	limit  int
	// stored are those that declarative validation does not look at again.
	stored map[string]resourceapi.Counter
	// declared says that declarative validation looks at them at all.
	declared bool
}

// check reports counters that are missing, too many or badly named. Of too many, only
// declarative validation looks at the names.
func (all counters) check(at func() *field.Path, c Conditions) (errs field.ErrorList) {
	tooMany := c.Profile.Since(35) && len(all.values) > all.limit
	switch {
	case len(all.values) == 0:
		return field.ErrorList{field.Required(at(), "name at least one counter")}
	case tooMany:
		errs = atMost(at(), len(all.values), all.limit)
		if !c.Profile.Since(37) || !all.declared {
			return errs
		}
	}
	for _, name := range keysOf(all.values, func(name string, _ resourceapi.Counter) bool { return len(validation.IsDNS1123Label(name)) > 0 }) {
		if _, stored := all.stored[name]; stored && tooMany {
			continue
		}
		place := at()
		if !c.Profile.Since(36) {
			place = place.Key(shorten(name, validation.DNS1123LabelMaxLength))
		}
		errs = append(errs, label(place, name)...)
	}
	return errs
}

// label reports a text that is no DNS label.
func label(at *field.Path, text string) field.ErrorList {
	return allOf(at, text, validation.IsDNS1123Label(text))
}
