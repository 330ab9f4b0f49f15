package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"weak"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	selectorcel "github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/internal/memory/sizedcache"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// maxEvaluations is how often selectors are evaluated for one object, a selector on a
// device. What is remembered costs nothing.
const maxEvaluations = 10000

// A Limiter bounds the time in which selectors are evaluated, and shares it fairly.
type Limiter interface {
	// Take waits for a slot. It returns a context that ends with the slot and a function
	// that releases it; false if no slot is free in time.
	Take() (turn context.Context, done func(), ok bool)
}

// Evaluations evaluates selectors on devices and remembers the result, by the expression
// and the slice: a slice that changes is another one. The zero value is ready for use, by
// several goroutines at once.
type Evaluations struct {
	// CacheBytes is the size of what is remembered; zero is 16 MiB, negative remembers
	// nothing.
	CacheBytes int64

	once     sync.Once
	compiler *selectorcel.Compiler
	// Results of claims do not evict those of classes, which few users may write.
	ofClaims, ofClasses memory
}

// memory is what is remembered of programs and their outcomes. Each has a quarter of the
// bytes.
type memory struct {
	programs *sizedcache.Cache[string, dracel.CompilationResult]
	outcomes *sizedcache.Cache[place, *outcomes]
}

const (
	defaultCacheBytes = 16 << 20
	// rememberedExpression is the length of the longest expression that is remembered.
	rememberedExpression = 1024
	// failureBytes is the length of the message of a failure.
	failureBytes = 512
)

// author is whose selectors they are.
type author int

const (
	claimAuthor author = iota
	classAuthor
)

func (e *Evaluations) of(a author) memory {
	e.once.Do(func() {
		// What the API server of any profile has accepted compiles here.
		e.compiler = &selectorcel.Compiler{Features: dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true}}
		share := max(cmp.Or(e.CacheBytes, defaultCacheBytes), 0) / 4
		for _, m := range []*memory{&e.ofClaims, &e.ofClasses} {
			*m = memory{sizedcache.New[string, dracel.CompilationResult](share), sizedcache.New[place, *outcomes](share)}
		}
	})
	if a == classAuthor {
		return e.ofClasses
	}
	return e.ofClaims
}

// outcome is the result of a selector on a device.
type outcome uint8

const (
	unknown outcome = iota
	matches
	differs
	fails
	// expensive is too expensive to evaluate: whether it matches is not known.
	expensive
)

// outcomes are those of an expression on the devices of a slice.
type outcomes struct {
	mu      sync.Mutex
	devices []outcome
	// failure is the message of the first that fails.
	failure string
}

// place is an expression on a slice. It does not keep a slice alive that was replaced: a cache of 4 MiB counts the outcomes
// of about 6,000 slices, and not the slices. Use a plain pointer once replaced slices leave the cache.
type place struct {
	expression string
	slice      weak.Pointer[resourceapi.ResourceSlice]
}

// at returns what is remembered of an expression on a slice.
func (m memory) at(expression string, slice *resourceapi.ResourceSlice) *outcomes {
	key := place{expression, weak.Make(slice)}
	if known, ok := m.outcomes.Get(key); ok {
		return known
	}
	fresh := &outcomes{devices: make([]outcome, len(slice.Spec.Devices))}
	if len(expression) <= rememberedExpression {
		m.outcomes.Add(key, fresh, int64(len(expression)+len(fresh.devices)+failureBytes))
	}
	return fresh
}

// program compiles an expression; one that does not compile fails nowhere, it is the
// matter of another rule.
func (e *Evaluations) program(m memory, expression string) dracel.CompilationResult {
	if known, ok := m.programs.Get(expression); ok {
		return known
	}
	result := e.compiler.Compile(expression, dracel.Options{DisableCostEstimation: true})
	if len(expression) <= rememberedExpression {
		m.programs.Add(expression, result, int64(selectorcel.ProgramLeast+selectorcel.ProgramBytes*len(expression)))
	}
	return result
}

// recall returns what is remembered of selectors on a slice.
func (e *Evaluations) recall(a author, selectors []resourceapi.DeviceSelector, slice *resourceapi.ResourceSlice, into []*outcomes) []*outcomes {
	m := e.of(a)
	for _, selector := range selectors {
		known := (*outcomes)(nil)
		if selector.CEL != nil {
			known = m.at(selector.CEL.Expression, slice)
		}
		into = append(into, known)
	}
	return into
}

// evaluate returns the outcome of an expression on a device, and the message of a
// failure, with what is remembered of it on the device's slice. It is unknown where the
// effort does not suffice.
func (e *Evaluations) evaluate(a author, expression string, on *resourceapi.ResourceSlice, device int, known *outcomes, effort *effort) (outcome, string) {
	known.mu.Lock()
	result, failure := known.devices[device], known.failure
	known.mu.Unlock()
	if result != unknown || !effort.may() {
		return result, failure
	}
	if result, failure = e.compute(e.of(a), expression, on, &on.Spec.Devices[device], effort.turn); result != unknown {
		known.mu.Lock()
		known.devices[device] = result
		if known.failure == "" {
			known.failure = failure
		}
		known.mu.Unlock()
	}
	return result, failure
}

func (e *Evaluations) compute(m memory, expression string, slice *resourceapi.ResourceSlice, device *resourceapi.Device, turn context.Context) (outcome, string) {
	program := e.program(m, expression)
	switch {
	case selectorcel.TooExpensive(program):
		return expensive, program.Error.Detail
	case program.Error != nil:
		return matches, ""
	}
	is, _, err := program.DeviceMatches(turn, dracel.Device{Driver: slice.Spec.Driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity})
	switch {
	case errors.Is(err, selectorcel.ErrTooExpensive):
		return expensive, err.Error()
	case err != nil && turn.Err() != nil:
		return unknown, ""
	case err != nil:
		first, _, _ := strings.Cut(err.Error(), "\n")
		if len(first) > failureBytes {
			first = strings.ToValidUTF8(first[:failureBytes], "") + "..."
		}
		return fails, strings.Clone(first)
	case is:
		return matches, ""
	default:
		return differs, ""
	}
}

// effort is what one look at an object costs.
type effort struct {
	limiter Limiter
	turn    context.Context
	done    func()
	// spent are the evaluations; over is true if nothing is left.
	spent int
	over  bool
}

// may reports whether one more evaluation is allowed, and takes the slot for the first.
func (e *effort) may() bool {
	if e.turn == nil && !e.over {
		e.turn, e.done = context.Background(), func() {}
		if e.limiter != nil {
			turn, done, ok := e.limiter.Take()
			if e.over = !ok; ok {
				e.turn, e.done = turn, done
			}
		}
	}
	if !e.over && (e.spent >= maxEvaluations || e.turn.Err() != nil) {
		e.over = true
	}
	if e.over {
		return false
	}
	e.spent++
	return true
}

// end releases the slot.
func (e *effort) end() {
	if e.done != nil {
		e.done()
	}
}

const selectorDevicesDoc = `A selector matches existing devices and fails on none.

An expression that reads an attribute fails on a device without it, and one such device is
enough to fail the allocation for its whole node: check first that the attribute exists. A
selector that matches nothing leaves the pod pending. Selectors are evaluated in the
scheduler's order, those of the class first, on a sample of the devices of every driver, and
on the remaining devices while none matches. No evaluation begins after 50 ms, nor after 10,000;
one that has begun ends within a fixed amount of work. After that, the finding is marked as not
fully evaluated. An expression for which the work does not suffice on one device, or that takes
too long to compile, is named as one that cannot be evaluated. It only warns, because devices
come and go. That nothing matches is not said of an alternative while another of its list matches, nor
of a class whose device.driver names a driver without ResourceSlices: its driver has not run yet.`

// selectorDevices is the rule for selectors and the devices that exist.
func selectorDevices[T any](check func(T, Pass) field.ErrorList) Rule[T] {
	return Rule[T]{
		ID:          "selector-devices",
		Doc:         selectorDevicesDoc,
		Severity:    Warning,
		CrossObject: true,
		Upstream:    "compiles the expression; only the scheduler evaluates it",
		Source:      "KEP-4381, CELDeviceSelector.Expression",
		Check:       check,
	}
}

// A search looks for the devices of a device request.
type search struct {
	evaluations *Evaluations
	effort      *effort
	clusterView ClusterView
	class       *resourceapi.DeviceClass
	selectors   []resourceapi.DeviceSelector

	// slice is the one of the last device, with what is remembered of the selectors on it.
	slice            *resourceapi.ResourceSlice
	ofClass, ofClaim []*outcomes

	searched
}

// failures are the devices on which a selector fails.
type failures struct {
	number int
	// costly is true if the first is too expensive to evaluate.
	costly        bool
	first, reason string
}

func claimSelectorDevices(spec walk.ClaimSpec, c Pass) (errs field.ErrorList) {
	if c.ClusterView == nil {
		return nil
	}
	effort := &effort{limiter: c.Limiter}
	defer effort.end()
	demands, left := 0, 0
	var alternatives alternatives
	for place, deviceRequest := range spec.DeviceRequests() {
		demands++
		errs = append(errs, alternatives.of(place.Request())...)
		class := c.ClusterView.Class(deviceRequest.Class)
		selectors := walk.Bounded(deviceRequest.Selectors, resourceapi.DeviceSelectorsMaxSize)
		if class == nil {
			continue
		}
		if effort.over {
			left++
			continue
		}
		s := search{evaluations: c.evaluations(), effort: effort, clusterView: c.ClusterView, class: class, selectors: selectors}
		s.run()
		found := s.findings(place.At())
		if effort.over && found == nil {
			left++
		}
		if s.matchesNothing(found) {
			alternatives.nothing = append(alternatives.nothing, found...)
			continue
		}
		alternatives.answered = alternatives.answered || s.found > 0 || effort.over
		errs = append(errs, found...)
	}
	errs = append(errs, alternatives.of(-1)...)
	if left > 0 {
		errs = append(errs, field.Invalid(spec.At.Child("devices", "requests"), field.OmitValueType{}, fmt.Sprintf(
			"not fully evaluated: the selectors of %[2]d of %[1]d requests and alternatives were not evaluated on all devices in time", demands, left)))
	}
	return errs
}

// alternatives are those of one request: that one matches nothing says something only if no other matches.
type alternatives struct {
	request  int
	nothing  field.ErrorList
	answered bool
}

// of goes on to a request, and returns what is left to say of the last one.
func (a *alternatives) of(request int) (errs field.ErrorList) {
	if request == a.request {
		return nil
	}
	if !a.answered {
		errs = a.nothing
	}
	*a = alternatives{request: request}
	return errs
}

func classSelectorDevices(class *resourceapi.DeviceClass, c Pass) field.ErrorList {
	if c.ClusterView == nil || len(class.Spec.Selectors) == 0 {
		return nil
	}
	effort := &effort{limiter: c.Limiter}
	defer effort.end()
	own := *class
	s := search{evaluations: c.evaluations(), effort: effort, clusterView: c.ClusterView, class: &own}
	own.Spec.Selectors = walk.Bounded(class.Spec.Selectors, resourceapi.DeviceSelectorsMaxSize)
	s.run()
	list := field.NewPath("spec", "selectors")
	errs := s.failing(list, s.classFails)
	switch {
	case s.members == 0 && s.looked > 0 && len(errs) == 0 && s.awaited():
	case s.members == 0 && s.looked > 0 && len(errs) == 0:
		errs = append(errs, field.Invalid(list, field.OmitValueType{}, fmt.Sprintf("the selectors match none of the %d devices%s", s.looked, s.rest())))
	case effort.over && len(errs) == 0:
		errs = append(errs, field.Invalid(list, field.OmitValueType{}, "not fully evaluated on the existing devices"))
	}
	return errs
}

// run searches, unless the same search among the same slices is remembered.
func (s *search) run() {
	order := orderIn(s.clusterView)
	key := s.key()
	if order == nil || s.evaluations.CacheBytes < 0 || len(key) > rememberedExpression {
		s.scan(sample(s.clusterView))
		return
	}
	if known, is := order.searches().Get(key); is {
		s.searched = known
		return
	}
	if s.scan(order.sampled); !s.effort.over {
		order.searches().Add(key, s.searched, int64(len(key)+failureBytes*(len(s.classFails)+len(s.fails))))
	}
}

// scan tries the sample, and all others while nothing is found.
func (s *search) scan(sample iter.Seq2[*resourceapi.ResourceSlice, int]) {
	s.classFails, s.fails = map[int]*failures{}, map[int]*failures{}
	for slice, device := range sample {
		if s.try(slice, device); s.effort.over {
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
	for slice := range s.clusterView.Slices() {
		for device := range slice.Spec.Devices {
			if s.try(slice, device); s.found > 0 || s.effort.over {
				return
			}
		}
	}
}

// try evaluates the selectors for a device, as the scheduler does.
func (s *search) try(slice *resourceapi.ResourceSlice, device int) {
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
		if result == fails || result == expensive {
			if fail[i] == nil {
				fail[i] = &failures{costly: result == expensive, first: s.slice.Spec.Driver + "/" + s.slice.Spec.Pool.Name + "/" + s.slice.Spec.Devices[device].Name, reason: reason}
			}
			fail[i].number++
		}
		if result != matches {
			return false
		}
	}
	return true
}

// findings returns the problems of a device request at a place.
func (s *search) findings(at *field.Path) field.ErrorList {
	errs := s.failing(at.Child("selectors"), s.fails)
	for _, i := range slices.Sorted(maps.Keys(s.classFails)) {
		f := s.classFails[i]
		does := "fails"
		if f.costly {
			does = "cannot be evaluated"
		}
		errs = append(errs, field.Invalid(at.Child("deviceClassName"), s.class.Name, fmt.Sprintf(
			"selectors[%d] of the class %s on the device %s: %s", i, does, f.first, f.reason)))
	}
	switch {
	case s.found > 0 || s.looked == 0 || len(errs) > 0 || s.members == 0 && s.awaited():
	case s.members == 0:
		errs = append(errs, field.Invalid(at.Child("deviceClassName"), s.class.Name, fmt.Sprintf(
			"none of %d devices belongs to the class%s", s.looked, s.rest())))
	default:
		errs = append(errs, field.Invalid(at.Child("selectors"), field.OmitValueType{}, fmt.Sprintf(
			"the selectors match none of the %d devices of the class %s%s", s.members, s.class.Name, s.rest())))
	}
	return errs
}

// matchesNothing reports whether the findings say only that there is no device.
func (s *search) matchesNothing(found field.ErrorList) bool {
	return len(found) > 0 && s.found == 0 && len(s.fails)+len(s.classFails) == 0
}

// awaited reports whether the class is for drivers, as device.driver says in its selectors, none of which has published a
// slice yet: classes and claims come before their driver has run, so this is no mistake.
func (s *search) awaited() bool {
	var expressions strings.Builder
	for _, selector := range s.class.Spec.Selectors {
		if selector.CEL != nil {
			expressions.WriteString(selector.CEL.Expression + "\n")
		}
	}
	text := expressions.String()
	if !strings.Contains(text, "device.driver") {
		return false
	}
	for slice := range s.clusterView.Slices() {
		if strings.Contains(text, slice.Spec.Driver) {
			return false
		}
	}
	return true
}

// failing reports the selectors that fail on devices.
func (s *search) failing(list *field.Path, of map[int]*failures) (errs field.ErrorList) {
	for _, i := range slices.Sorted(maps.Keys(of)) {
		if of[i].costly {
			errs = append(errs, field.Invalid(list.Index(i).Child("cel", "expression"), field.OmitValueType{}, fmt.Sprintf(
				"not fully evaluated: cannot be evaluated on %d of %d devices%s, first on %s: %s; write a condition that costs less",
				of[i].number, s.looked, s.rest(), of[i].first, of[i].reason)))
			continue
		}
		errs = append(errs, field.Invalid(list.Index(i).Child("cel", "expression"), field.OmitValueType{}, fmt.Sprintf(
			"fails on %d of %d devices%s, first on %s: %s; each of them fails the allocation for its node: check first that the attribute exists",
			of[i].number, s.looked, s.rest(), of[i].first, of[i].reason)))
	}
	return errs
}

// rest is true if more devices exist than were checked.
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
	for slice := range s.clusterView.Slices() {
		n += len(slice.Spec.Devices)
	}
	return n
}
