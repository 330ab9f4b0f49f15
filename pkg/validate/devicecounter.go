package validate

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func deviceCounters(d device, c Conditions) (errs field.ErrorList) {
	if len(d.ConsumesCounters) == 0 || !d.judged() {
		return nil
	}
	list := d.at("consumesCounters")
	const most = resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice
	if c.Profile.Since(35) && len(d.ConsumesCounters) > most {
		return atMost(list, len(d.ConsumesCounters), most)
	}
	seen := make(map[string]bool, len(d.ConsumesCounters))
	for i, consumed := range d.ConsumesCounters {
		at := list.Index(i)
		errs = append(errs, consumedSet(at.Child("counterSet"), consumed.CounterSet, c)...)
		all := counters{consumed.Counters, resourceapi.ResourceSliceMaxCountersPerDeviceCounterConsumption, nil, len(consumed.Counters) > 0 && d.declared()}
		problems := all.check(func() *field.Path { return at.Child("counters") }, c)
		if d.passedOver && c.Profile.Since(37) {
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
func consumedSet(at *field.Path, name string, c Conditions) field.ErrorList {
	switch {
	case name == "":
		return field.ErrorList{field.Required(at, "name the set")}
	case !c.Profile.Since(35):
		return nil
	default:
		return label(at, name)
	}
}

// knownCounters is what 1.34 alone says.
func knownCounters(slice *resourceapi.ResourceSlice, c Conditions) (errs field.ErrorList) {
	if c.Profile.Since(35) {
		return nil
	}
	sets := map[string]map[string]resourceapi.Counter{}
	for _, set := range slice.Spec.SharedCounters {
		sets[set.Name] = set.Counters
	}
	all := 0
	for d := range walkDevices(nil, slice, c) {
		own := 0
		for i, consumed := range d.ConsumesCounters {
			own += len(consumed.Counters)
			errs = append(errs, unknownCounters(d.at("consumesCounters").Index(i), consumed, sets)...)
		}
		if own > maxCountersPerDevice134 {
			errs = append(errs, total(d.at(), "counters", own, maxCountersPerDevice134)...)
		}
		all += own
	}
	return append(errs, total(field.NewPath("spec", "devices"), "counters in devices", all, maxCountersPerSlice134)...)
}

func unknownCounters(at *field.Path, consumed resourceapi.DeviceCounterConsumption, sets map[string]map[string]resourceapi.Counter) field.ErrorList {
	known, is := sets[consumed.CounterSet]
	if !is {
		return field.ErrorList{field.Invalid(at.Child("counterSet"), consumed.CounterSet, "must be a set in sharedCounters")}
	}
	var errs field.ErrorList
	for _, name := range keysOf(consumed.Counters, func(name string, _ resourceapi.Counter) bool { _, is := known[name]; return !is }) {
		errs = append(errs, field.Invalid(at.Child("counters"), name, "must be a counter of the set in sharedCounters"))
	}
	return errs
}

// compatibilityGroups is what declarative validation says; no other does.
func compatibilityGroups(d device, _ Conditions) (errs field.ErrorList) {
	for i, consumed := range d.ConsumesCounters {
		groups := consumed.CompatibilityGroups
		if len(groups) == 0 || len(d.ConsumesCounters) > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice || !d.declared() {
			continue
		}
		at := d.at("consumesCounters").Index(i).Child("compatibilityGroups")
		if len(groups) > resourceapi.DeviceCompatibilityGroupsMaxSize {
			errs = append(errs, atMost(at, len(groups), resourceapi.DeviceCompatibilityGroupsMaxSize)...)
			continue
		}
		seen := map[string]bool{}
		for j, group := range groups {
			errs = append(errs, allOf(at.Index(j), group, validation.IsDNS1123Label(group))...)
			if seen[group] {
				errs = append(errs, field.Duplicate(at.Index(j), group))
			}
			seen[group] = true
		}
	}
	return errs
}
