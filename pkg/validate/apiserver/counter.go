package apiserver

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// counterRules are the rules for shared counters and the devices that consume them.
var counterRules = Table[*resourceapi.ResourceSlice]{
	{
		ID: "counter-sets",
		Doc: `A slice has at most 8 counter sets, each with a unique name.

The name is a DNS label. Devices refer to the sets that they consume by this name.`,
		Upstream: "the same, since 1.35; any number of sets in 1.34",
		Source:   "KEP-4815, CounterSet, ResourceSliceMaxCounterSets",
		Check:    counterSets,
	},
	{
		ID: "counter-set-counters",
		Doc: `A set has 1 to 32 counters, named by DNS labels.

A set without a counter has nothing to share.`,
		Upstream: "the same, since 1.35; 32 counters in all sets together in 1.34",
		Source:   "KEP-4815, CounterSet.Counters, ResourceSliceMaxCountersPerCounterSet",
		Check: func(slice *resourceapi.ResourceSlice, c Pass) field.ErrorList {
			return counterSetCounters(nil, slice, c)
		},
		Update: counterSetCounters,
	},
	{
		ID: "device-counters",
		Doc: `A device consumes counters of at most 2 sets, and names each set once.

From each set it consumes 1 to 32 counters. The names of sets and counters are DNS labels.`,
		Upstream: "the same, since 1.35; in 1.34 32 counters of a device and 1024 of a slice, and the counters must exist in the slice",
		Source:   "KEP-4815, DeviceCounterConsumption, ResourceSliceMaxDeviceCounterConsumptionsPerDevice",
		Check:    everyDevice(deviceCounters),
		Update:   everyDeviceUpdate(deviceCounters),
	},
	{
		ID: "device-counters-known",
		Doc: `The counters that a device consumes exist in its slice.

Since 1.35 they are in another slice of the pool, which the API server does not read.`,
		Upstream: "the same, in 1.34",
		Source:   "KEP-4815, validateDevice of 1.34",
		Check:    knownCounters,
	},
	{
		ID: "counter-compatibility",
		Doc: `The counters that a device consumes from a set name at most 2 compatibility groups.

Each group is a DNS label that occurs once.`,
		Upstream: "the same, since 1.37, with DRADeviceCompatibilityGroups",
		Source:   "KEP-5963, DeviceCompatibilityGroupsMaxSize",
		Check:    everyDevice(compatibilityGroups),
		Update:   everyDeviceUpdate(compatibilityGroups),
	},
}

// The numbers of 1.34, which counted otherwise than later API servers.
const (
	maxSharedCounters134    = 32
	maxCountersPerDevice134 = 32
	maxCountersPerSlice134  = 1024
)

func setPlaces(slice *resourceapi.ResourceSlice) *walk.Places {
	sets := slice.Spec.SharedCounters
	return &walk.Places{List: field.NewPath("spec", "sharedCounters"), Length: len(sets), Name: func(i int) string { return sets[i].Name }}
}

func counterSets(slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	sets, places := slice.Spec.SharedCounters, setPlaces(slice)
	if c.Profile.Since(35) && len(sets) > resourceapi.ResourceSliceMaxCounterSets {
		return form.AtMost(places.List, len(sets), resourceapi.ResourceSliceMaxCounterSets)
	}
	for i, set := range sets {
		if set.Name == "" {
			errs = append(errs, field.Required(places.At(i).Child("name"), "name the set"))
		} else {
			errs = append(errs, form.Label(places.At(i).Child("name"), set.Name)...)
		}
		if !places.IsFirst(i) {
			errs = append(errs, field.Duplicate(duplicate(places.At(i), "name", c), set.Name))
		}
	}
	return errs
}

func counterSetCounters(old, slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	sets, places := slice.Spec.SharedCounters, setPlaces(slice)
	if !c.Profile.Since(35) {
		n := 0
		for _, set := range sets {
			n += len(set.Counters)
		}
		errs = form.Total(places.List, "shared counters", n, maxSharedCounters134)
	}
	for i, set := range walk.Checked(sets, resourceapi.ResourceSliceMaxCounterSets, c.server) {
		all := counters{set.Counters, resourceapi.ResourceSliceMaxCountersPerCounterSet, nil, true}
		if old != nil {
			all.stored = storedCounters(old, set.Name)
		}
		errs = append(errs, all.check(func() *field.Path { return places.At(i).Child("counters") }, c)...)
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
	// declared is true if declarative validation checks them.
	declared bool
}

// check reports counters that are missing, too many or badly named. Of too many, only
// declarative validation looks at the names.
func (all counters) check(at func() *field.Path, c Pass) (errs field.ErrorList) {
	tooMany := c.Profile.Since(35) && len(all.values) > all.limit
	switch {
	case len(all.values) == 0:
		return field.ErrorList{field.Required(at(), "name at least one counter")}
	case tooMany:
		errs = form.AtMost(at(), len(all.values), all.limit)
		if !c.Profile.Since(37) || !all.declared {
			return errs
		}
	}
	for _, name := range form.KeysOf(all.values, func(name string, _ resourceapi.Counter) bool { return len(validation.IsDNS1123Label(name)) > 0 }) {
		if _, stored := all.stored[name]; stored && tooMany {
			continue
		}
		place := at()
		if !c.Profile.Since(36) {
			place = place.Key(form.Shorten(name, validation.DNS1123LabelMaxLength))
		}
		errs = append(errs, form.Label(place, name)...)
	}
	return errs
}

func deviceCounters(d walk.Device, c Pass) (errs field.ErrorList) {
	if len(d.ConsumesCounters) == 0 || !d.Checked() {
		return nil
	}
	list := d.At("consumesCounters")
	const most = resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice
	if c.Profile.Since(35) && len(d.ConsumesCounters) > most {
		return form.AtMost(list, len(d.ConsumesCounters), most)
	}
	seen := make(map[string]bool, len(d.ConsumesCounters))
	for i, consumed := range d.ConsumesCounters {
		at := list.Index(i)
		errs = append(errs, consumedSet(at.Child("counterSet"), consumed.CounterSet, c)...)
		all := counters{consumed.Counters, resourceapi.ResourceSliceMaxCountersPerDeviceCounterConsumption, nil, len(consumed.Counters) > 0 && d.Declared()}
		problems := all.check(func() *field.Path { return at.Child("counters") }, c)
		if d.PassedOver && c.Profile.Since(37) {
			problems = withoutTooMany(problems)
		}
		errs = append(errs, problems...)
		if seen[consumed.CounterSet] {
			errs = append(errs, field.Duplicate(duplicate(at, "counterSet", c), consumed.CounterSet))
		}
		seen[consumed.CounterSet] = true
	}
	return errs
}

// withoutTooMany leaves out what only hand-written validation knows.
func withoutTooMany(errs field.ErrorList) (rest field.ErrorList) {
	for _, err := range errs {
		if err.Type != field.ErrorTypeTooMany {
			rest = append(rest, err)
		}
	}
	return rest
}

// consumedSet reports a name that cannot be one of a set; 1.34 only looks whether it
// exists.
func consumedSet(at *field.Path, name string, c Pass) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "name the set")}
	case !c.Profile.Since(35):
		return nil
	default:
		return form.Label(at, name)
	}
}

// knownCounters is a check of 1.34 only.
func knownCounters(slice *resourceapi.ResourceSlice, c Pass) (errs field.ErrorList) {
	if c.Profile.Since(35) {
		return nil
	}
	sets := map[string]map[string]resourceapi.Counter{}
	for _, set := range slice.Spec.SharedCounters {
		sets[set.Name] = set.Counters
	}
	all := 0
	for d := range walk.CheckedDevices(nil, slice, c.server) {
		own := 0
		for i, consumed := range d.ConsumesCounters {
			own += len(consumed.Counters)
			errs = append(errs, unknownCounters(d.At("consumesCounters").Index(i), consumed, sets)...)
		}
		if own > maxCountersPerDevice134 {
			errs = append(errs, form.Total(d.At(), "counters", own, maxCountersPerDevice134)...)
		}
		all += own
	}
	return append(errs, form.Total(field.NewPath("spec", "devices"), "counters in devices", all, maxCountersPerSlice134)...)
}

func unknownCounters(at *field.Path, consumed resourceapi.DeviceCounterConsumption, sets map[string]map[string]resourceapi.Counter) field.ErrorList {
	known, is := sets[consumed.CounterSet]
	if !is {
		return field.ErrorList{field.Invalid(at.Child("counterSet"), consumed.CounterSet, "must be a set in sharedCounters")}
	}
	var errs field.ErrorList
	for _, name := range form.KeysOf(consumed.Counters, func(name string, _ resourceapi.Counter) bool { _, is := known[name]; return !is }) {
		errs = append(errs, field.Invalid(at.Child("counters"), name, "must be a counter of the set in sharedCounters"))
	}
	return errs
}

// compatibilityGroups is a check of declarative validation only.
func compatibilityGroups(d walk.Device, _ Pass) (errs field.ErrorList) {
	for i, consumed := range d.ConsumesCounters {
		groups := consumed.CompatibilityGroups
		if len(groups) == 0 || len(d.ConsumesCounters) > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice || !d.Declared() {
			continue
		}
		at := d.At("consumesCounters").Index(i).Child("compatibilityGroups")
		if len(groups) > resourceapi.DeviceCompatibilityGroupsMaxSize {
			errs = append(errs, form.AtMost(at, len(groups), resourceapi.DeviceCompatibilityGroupsMaxSize)...)
			continue
		}
		seen := map[string]bool{}
		for j, group := range groups {
			errs = append(errs, form.AllOf(at.Index(j), group, validation.IsDNS1123Label(group))...)
			if seen[group] {
				errs = append(errs, field.Duplicate(at.Index(j), group))
			}
			seen[group] = true
		}
	}
	return errs
}
