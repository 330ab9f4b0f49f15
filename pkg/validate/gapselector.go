package validate

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const selectorDevicesDoc = `A selector finds devices among those that exist, and fails on none.

An expression that reads an attribute fails on a device without it, and one such device
is enough to fail the allocation for its whole node: ask first whether the attribute is
there. One that matches nothing leaves the pod pending. Selectors are evaluated in the
scheduler's order, those of the class first, on a sample of the devices of every driver,
and on the others while none matches. That takes at most 50 ms and 10,000 evaluations;
beyond, the finding says that it is not fully evaluated. It only warns, since devices
come and go.`

// selectorDevices is the rule for selectors and the devices that exist.
func selectorDevices[T any](check func(T, Conditions) field.ErrorList) Rule[T] {
	return Rule[T]{
		ID:       "selector-devices",
		Doc:      selectorDevicesDoc,
		Class:    Gap,
		Severity: Warning,
		Beyond:   true,
		Server:   "compiles the expression; only the scheduler evaluates it",
		Source:   "KEP-4381, CELDeviceSelector.Expression",
		Check:    check,
	}
}

// A search looks for the devices of a demand.
type search struct {
	evaluations *Evaluations
	effort      *effort
	world       World
	class       *resourceapi.DeviceClass
	selectors   []resourceapi.DeviceSelector

	// slice is the one of the last device, with what is remembered of the selectors on it.
	slice            *resourceapi.ResourceSlice
	ofClass, ofClaim []*outcomes

	// looked are the devices that were looked at, members those of the class, found
	// those that the selectors match.
	looked, members, found int
	// classFails and fails are the failures of the class's selectors and of the own, by
	// the index of the selector.
	classFails, fails map[int]*failures
}

// failures are the devices on which a selector fails.
type failures struct {
	number        int
	first, reason string
}

func claimSelectorDevices(spec claimSpec, c Conditions) (errs field.ErrorList) {
	if c.World == nil {
		return nil
	}
	effort := &effort{turns: c.Turns}
	defer effort.end()
	demands, left := 0, 0
	for at, demand := range spec.demands() {
		demands++
		class := c.World.Class(demand.class)
		selectors := bounded(demand.selectors, resourceapi.DeviceSelectorsMaxSize)
		if class == nil {
			continue
		}
		if effort.over {
			left++
			continue
		}
		s := search{evaluations: c.evaluations(), effort: effort, world: c.World, class: class, selectors: selectors}
		s.run()
		found := s.findings(at)
		if effort.over && found == nil {
			left++
		}
		errs = append(errs, found...)
	}
	if left > 0 {
		errs = append(errs, field.Invalid(spec.at.Child("devices", "requests"), field.OmitValueType{}, fmt.Sprintf(
			"not fully evaluated: of %d requests and alternatives, %d have selectors that were not held against all devices within the time", demands, left)))
	}
	return errs
}

func classSelectorDevices(class *resourceapi.DeviceClass, c Conditions) field.ErrorList {
	if c.World == nil || len(class.Spec.Selectors) == 0 {
		return nil
	}
	effort := &effort{turns: c.Turns}
	defer effort.end()
	own := *class
	s := search{evaluations: c.evaluations(), effort: effort, world: c.World, class: &own}
	own.Spec.Selectors = bounded(class.Spec.Selectors, resourceapi.DeviceSelectorsMaxSize)
	s.run()
	list := field.NewPath("spec", "selectors")
	errs := s.failing(list, s.classFails)
	switch {
	case s.members == 0 && s.looked > 0 && len(errs) == 0:
		errs = append(errs, field.Invalid(list, field.OmitValueType{}, fmt.Sprintf("match none of %d devices%s", s.looked, s.rest())))
	case effort.over && len(errs) == 0:
		errs = append(errs, field.Invalid(list, field.OmitValueType{}, "not fully evaluated on the devices that exist"))
	}
	return errs
}

// run looks at the sample, and at all others while nothing is found.
func (s *search) run() {
	s.classFails, s.fails = map[int]*failures{}, map[int]*failures{}
	for slice, device := range sample(s.world) {
		if s.look(slice, device); s.effort.over {
			return
		}
		if s.found > 0 && len(s.selectors)+len(s.class.Spec.Selectors) == 0 {
			return // no selector could fail
		}
	}
	if s.found > 0 || s.looked == s.total() {
		return
	}
	s.looked, s.members = 0, 0
	s.classFails, s.fails = map[int]*failures{}, map[int]*failures{}
	for slice := range s.world.Slices() {
		for device := range slice.Spec.Devices {
			if s.look(slice, device); s.found > 0 || s.effort.over {
				return
			}
		}
	}
}

// look holds the selectors against a device, as the scheduler does.
func (s *search) look(slice *resourceapi.ResourceSlice, device int) {
	if s.slice != slice {
		s.slice = slice
		s.ofClass = s.evaluations.recall(classAuthor, s.class.Spec.Selectors, slice, s.ofClass[:0])
		s.ofClaim = s.evaluations.recall(claimAuthor, s.selectors, slice, s.ofClaim[:0])
	}
	isMember := s.all(classAuthor, s.class.Spec.Selectors, s.ofClass, s.classFails, device)
	if s.effort.over {
		return
	}
	s.looked++
	if !isMember {
		return
	}
	isFound := s.all(claimAuthor, s.selectors, s.ofClaim, s.fails, device)
	if s.effort.over {
		return
	}
	if s.members++; isFound {
		s.found++
	}
}

func (s *search) all(a author, selectors []resourceapi.DeviceSelector, known []*outcomes, fail map[int]*failures, device int) bool {
	for i, selector := range selectors {
		if selector.CEL == nil {
			continue
		}
		result, reason := s.evaluations.evaluate(a, selector.CEL.Expression, s.slice, device, known[i], s.effort)
		if result == fails {
			if fail[i] == nil {
				fail[i] = &failures{first: s.slice.Spec.Driver + "/" + s.slice.Spec.Pool.Name + "/" + s.slice.Spec.Devices[device].Name, reason: reason}
			}
			fail[i].number++
		}
		if result != matches {
			return false
		}
	}
	return true
}

// findings say what is wrong with a demand at a place.
func (s *search) findings(at *field.Path) field.ErrorList {
	errs := s.failing(at.Child("selectors"), s.fails)
	for _, i := range slices.Sorted(maps.Keys(s.classFails)) {
		f := s.classFails[i]
		errs = append(errs, field.Invalid(at.Child("deviceClassName"), s.class.Name, fmt.Sprintf(
			"selectors[%d] of the class fails on the device %s: %s", i, f.first, f.reason)))
	}
	switch {
	case s.found > 0 || s.looked == 0 || len(errs) > 0:
	case s.members == 0:
		errs = append(errs, field.Invalid(at.Child("deviceClassName"), s.class.Name, fmt.Sprintf(
			"none of %d devices belongs to the class%s", s.looked, s.rest())))
	default:
		errs = append(errs, field.Invalid(at.Child("selectors"), field.OmitValueType{}, fmt.Sprintf(
			"match none of the %d devices of the class %s%s", s.members, s.class.Name, s.rest())))
	}
	return errs
}

// failing reports the selectors that fail on devices.
func (s *search) failing(list *field.Path, of map[int]*failures) (errs field.ErrorList) {
	for _, i := range slices.Sorted(maps.Keys(of)) {
		errs = append(errs, field.Invalid(list.Index(i).Child("cel", "expression"), field.OmitValueType{}, fmt.Sprintf(
			"fails on %d of %d devices%s, first on %s: %s; one of them fails the allocation for its node: ask first whether the attribute is there",
			of[i].number, s.looked, s.rest(), of[i].first, of[i].reason)))
	}
	return errs
}

// rest says that more devices exist than were looked at.
func (s *search) rest() string {
	switch total := s.total(); {
	case s.effort.over:
		return fmt.Sprintf(" (not fully evaluated: %d exist)", total)
	case total > s.looked:
		return fmt.Sprintf(" (a sample: %d exist)", total)
	default:
		return ""
	}
}

// total is how many devices exist.
func (s *search) total() (n int) {
	for slice := range s.world.Slices() {
		n += len(slice.Spec.Devices)
	}
	return n
}
