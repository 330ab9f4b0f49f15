package patch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	selectorcel "github.com/dra-steward/dra-steward/internal/cost/selector"
)

// A Set is all patches of a cluster, compiled, with the results of their expressions for
// the devices of slices. It is for callers that keep many slices up to date. The zero value
// is empty and ready for use; it is used by one goroutine at a time.
type Set struct {
	compiler Compiler
	byName   map[string]*Patch
	results
}

// results are those of expressions for the devices of slices. The zero value is empty.
type results struct {
	evaluations map[string]*Evaluation // by the name of the slice
	bytes, most int                    // of the evaluations; most is keptBytes if zero
}

// Put compiles a patch, replaces the patch of the same name, and returns both. class is the
// DeviceClass that the filter names, or nil.
func (s *Set) Put(object *v1alpha1.ResourceSlicePatch, class *resourceapi.DeviceClass) (old, now *Patch) {
	if s.byName == nil {
		s.byName = map[string]*Patch{}
	}
	old, now = s.byName[object.Name], s.compiler.Compile(object, class)
	s.byName[object.Name] = now
	return old, now
}

// Delete removes the patch of a name and returns it, nil if there was none.
func (s *Set) Delete(name string) *Patch {
	old := s.byName[name]
	delete(s.byName, name)
	return old
}

// Get returns the patch of a name, or nil.
func (s *Set) Get(name string) *Patch { return s.byName[name] }

// Len is the number of patches.
func (s *Set) Len() int { return len(s.byName) }

// All yields the patches in no particular order.
func (s *Set) All() iter.Seq[*Patch] { return maps.Values(s.byName) }

// keptBytes bounds the results that a set keeps.
const keptBytes = 64 << 20

// Apply applies the patches to a slice; nil if none matches a device of it or fails to. It
// keeps, by the name of the slice, the results of expressions for its devices: see
// [Set.Forget].
func (s *Set) Apply(slice *resourceapi.ResourceSlice) *Result {
	result, _, _ := s.ApplyWithin(context.Background(), slice, 0) // without a limit there is no error
	return result
}

// ApplyWithin is Apply that evaluates no more than limit, in the units of [MaxCost]; 0 is no
// bound. Where that does not suffice, the error is [ErrUnfinished], and the next call for the
// slice goes on. cost is what was evaluated.
func (s *Set) ApplyWithin(ctx context.Context, slice *resourceapi.ResourceSlice, limit uint64) (result *Result, cost uint64, err error) {
	slice = quantity.Capped(slice)
	var selected []*Patch
	for candidate := range s.All() {
		if candidate.Selects(slice.Spec.Driver, slice.Spec.Pool.Name) {
			selected = append(selected, candidate)
		}
	}
	if len(selected) == 0 {
		s.Forget(slice.Name)
		return nil, 0, nil
	}
	slices.SortFunc(selected, comparePatches)
	e := s.take(slice)
	e.spent, e.Limit = 0, limit
	matches, err := e.matches(ctx, slices.Values(selected))
	s.keep(e)
	if err != nil || len(matches) == 0 {
		return nil, e.spent, err
	}
	merged := mergeMatches(slice, matches)
	return &merged, e.spent, nil
}

// Forget drops the results of expressions for a slice that is deleted.
func (s *Set) Forget(slice string) { s.forget(slice) }

// take returns what is known of a slice, and forgets it.
func (r *results) take(slice *resourceapi.ResourceSlice) *Evaluation {
	e := r.evaluations[slice.Name]
	if e == nil || e.slice != slice {
		e = e.Next(slice)
	}
	r.forget(slice.Name)
	return e
}

// keep remembers the results for a slice, and forgets those for others where they are too many.
func (r *results) keep(e *Evaluation) {
	if r.evaluations == nil {
		r.evaluations = map[string]*Evaluation{}
	}
	e.kept = e.bytes()
	r.bytes += e.kept
	for other := range r.evaluations {
		if r.bytes <= cmp.Or(r.most, keptBytes) {
			break
		}
		r.forget(other)
	}
	r.evaluations[e.slice.Name] = e
}

func (r *results) forget(slice string) {
	if e := r.evaluations[slice]; e != nil {
		r.bytes -= e.kept
		delete(r.evaluations, slice)
	}
}

// A Compiler turns patches into what can be applied, and remembers compiled
// expressions: to compile one takes a millisecond. The environment and the limit of
// cost are those that kube-scheduler evaluates the selectors of claims in. The zero
// value is ready for use, by several goroutines at once.
type Compiler struct {
	selectors selectorcel.Compiler
	mu        sync.Mutex
	programs  map[string]*program
	bytes     int
}

// rememberedBytes bounds the text of the expressions that are remembered.
const rememberedBytes = 1 << 20

// A program is a compiled expression. Equal expressions have the same program as long
// as the compiler remembers it.
type program struct {
	expression string
	compiled   dracel.CompilationResult
}

// A Patch is a ResourceSlicePatch that can be applied. It does not change any more and
// is used by several goroutines at once.
type Patch struct {
	// Object is what the patch was compiled from. It must not be modified.
	Object *v1alpha1.ResourceSlicePatch
	// Problems are the faults of the patch by itself, whatever devices there are.
	Problems []Problem

	filter    v1alpha1.DevicePatchFilter
	selectors []selector
	// changes are the valid ones, attributes first, in the order of their names.
	changes []change
	// unusable is true if the filter cannot be evaluated: the patch applies to no device.
	unusable bool
}

// A selector is a condition of the filter, with the place where it is written.
type selector struct {
	*program
	place string
}

// A Problem is something wrong with a patch.
type Problem struct {
	Reason Reason
	// Name is that of the attribute or capacity that is wrong, empty if it is the
	// filter.
	Name resourceapi.FullyQualifiedName
	// Message is the problem, its place, and the correction.
	Message string
}

// A Reason is why a patch or a part of it does not apply, in one word.
type Reason string

const (
	// ClassNotFound: the DeviceClass that the filter names does not exist. The patch
	// applies to no device until it does.
	ClassNotFound Reason = "ClassNotFound"
	// CELError: an expression does not compile, and the patch applies to no device; or it
	// failed for some devices, and the patch does not apply to these.
	CELError Reason = "CELError"
	// InvalidValue: a name or value is invalid in a slice. The patch applies without it.
	InvalidValue Reason = "InvalidValue"
	// LimitReached: devices have no room for an attribute or capacity. The patch applies to
	// these without it.
	LimitReached Reason = "LimitReached"
)

// Compile makes a Patch. class is the DeviceClass that the filter names, or nil. A patch
// with problems is compiled, too: see [Patch.Problems].
func (c *Compiler) Compile(object *v1alpha1.ResourceSlicePatch, class *resourceapi.DeviceClass) *Patch {
	p := &Patch{Object: object}
	if which := object.Annotations[quantity.Unreadable]; which != "" {
		p.refuse(InvalidValue, which)
	}
	if filter := object.Spec.Devices.Filter; filter != nil {
		p.filter = *filter
	}
	if name := p.filter.DeviceClassName; name != nil {
		if class == nil || class.Name != *name {
			p.refuse(ClassNotFound, fmt.Sprintf("spec.devices.filter.deviceClassName: there is no DeviceClass %q: create it, or correct the name", *name))
		} else {
			c.add(p, class.Spec.Selectors, fmt.Sprintf("DeviceClass %s: spec.selectors", class.Name))
		}
	}
	c.add(p, p.filter.Selectors, "spec.devices.filter.selectors")
	p.addChanges()
	return p
}

func (p *Patch) refuse(reason Reason, message string) {
	p.unusable = true
	p.Problems = append(p.Problems, Problem{Reason: reason, Message: message})
}

func (c *Compiler) add(p *Patch, selectors []resourceapi.DeviceSelector, list string) {
	for i, s := range selectors {
		place := fmt.Sprintf("%s[%d].cel", list, i)
		if s.CEL == nil {
			p.refuse(CELError, place+": must be set, there is no other form of selector")
			continue
		}
		place += ".expression"
		compiled := c.compile(s.CEL.Expression)
		if compiled.compiled.Error != nil {
			p.refuse(CELError, place+": "+compiled.compiled.Error.Detail)
			continue
		}
		p.selectors = append(p.selectors, selector{compiled, place})
	}
}

func (c *Compiler) compile(expression string) *program {
	c.mu.Lock()
	known := c.programs[expression]
	c.mu.Unlock()
	if known != nil {
		return known
	}
	made := &program{expression: expression}
	made.compiled = c.selectors.Compile(expression, dracel.Options{DisableCostEstimation: true})
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.programs[expression]; known != nil {
		return known
	}
	if c.bytes += len(expression); c.bytes > rememberedBytes || c.programs == nil {
		c.programs, c.bytes = map[string]*program{}, len(expression)
	}
	c.programs[expression] = made
	return made
}

// A Selection is what the selector of a DeviceDrain finds.
type Selection struct {
	// Devices are those that match, in their order, each once.
	Devices []v1alpha1.DeviceName
	// Problems are expressions that do not compile.
	Problems []Problem
	// Failures are about devices that an expression failed for.
	Failures Failures
	// More is true if a limit of cost was reached before all devices were checked: there are
	// no Devices then, and a failure.
	More bool
}

// A Find returns the devices of a selector in slices.
type Find func(*v1alpha1.DrainSelector, iter.Seq[*resourceapi.ResourceSlice]) Selection

// Within is [Compiler.Select] with a limit.
func (c *Compiler) Within(limit uint64) Find {
	return func(selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice]) Selection {
		return c.Select(selector, all, limit)
	}
}

// Select finds the devices of a selector in slices, as their drivers published them; of
// each pool in those that no complete newer generation replaces: if several have a device, the newest
// counts. limit bounds what the expressions may cost together, in the units of [MaxCost]; 0 is no bound.
func (c *Compiler) Select(selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice], limit uint64) Selection {
	found, _ := new(Selector).selectWith(context.Background(), c, selector, all, limit)
	return found
}

// selectorBytes bounds the results that a Selector keeps.
const selectorBytes = 16 << 20

// A Selector finds the devices of selectors again and again: it keeps the results of the
// expressions for devices. Several goroutines may use it: none waits for more than the devices of
// a slice. The zero value is ready for use.
type Selector struct {
	compiler Compiler
	mutex    sync.Mutex
	results  results
}

// Select is [Compiler.Select]. The error is that of ctx.
func (s *Selector) Select(ctx context.Context, selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice], limit uint64) (found Selection, _ error) {
	return s.selectWith(ctx, &s.compiler, selector, all, limit)
}

func (s *Selector) match(ctx context.Context, p *Patch, slice *resourceapi.ResourceSlice) (Match, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.results.most = selectorBytes
	e := s.results.take(slice)
	m, err := p.match(ctx, e)
	e.views = nil
	s.results.keep(e)
	return m, err
}

func (s *Selector) selectWith(ctx context.Context, c *Compiler, selector *v1alpha1.DrainSelector, all iter.Seq[*resourceapi.ResourceSlice], limit uint64) (found Selection, _ error) {
	p := &Patch{filter: v1alpha1.DevicePatchFilter{Driver: selector.Driver, Pool: selector.Pool}}
	c.add(p, selector.Selectors, "spec.selector.selectors")
	if found.Problems = p.Problems; p.unusable {
		return found, nil
	}
	devices, seen, spent := map[v1alpha1.DeviceName]struct{}{}, map[v1alpha1.DeviceName]int64{}, uint64(0)
	for _, slice := range newest(p, all) {
		m, err := s.match(ctx, p, slice)
		if err != nil {
			return found, err
		}
		if spent += m.cost; limit > 0 && spent > limit || m.Failures.Expensive {
			found.More, found.Devices = true, nil
			found.Failures = Failures{Devices: 1, Expensive: true, First: cmp.Or(m.Failures.First, tooExpensive(slice.Name, limit))}
			return found, nil
		}
		if m.Failures.Devices > 0 && found.Failures.Devices == 0 {
			found.Failures.First = m.Failures.First
		}
		found.Failures.Devices += m.Failures.Devices
		for i := range slice.Spec.Devices {
			name := v1alpha1.DeviceName{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}
			if was, has := seen[name]; has && was > slice.Spec.Pool.Generation {
				continue
			}
			seen[name] = slice.Spec.Pool.Generation
			if m.has(i) {
				devices[name] = struct{}{}
			}
		}
	}
	found.Devices = slices.SortedFunc(maps.Keys(devices), func(a, b v1alpha1.DeviceName) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
	})
	return found, nil
}

// newest returns the slices that a patch may apply to, of the generations of their pools that count, the newest first.
func newest(p *Patch, all iter.Seq[*resourceapi.ResourceSlice]) []*resourceapi.ResourceSlice {
	return slices.SortedStableFunc(Counting(func(yield func(*resourceapi.ResourceSlice) bool) {
		for slice := range all {
			if p.Selects(slice.Spec.Driver, slice.Spec.Pool.Name) && !yield(slice) {
				return
			}
		}
	}), func(a, b *resourceapi.ResourceSlice) int {
		return cmp.Compare(b.Spec.Pool.Generation, a.Spec.Pool.Generation)
	})
}

// Counting yields the slices that no complete newer generation of their pool replaces.
func Counting(all iter.Seq[*resourceapi.ResourceSlice]) iter.Seq[*resourceapi.ResourceSlice] {
	type pool struct{ driver, name string }
	of := func(s *resourceapi.ResourceSlice) pool { return pool{s.Spec.Driver, s.Spec.Pool.Name} }
	return func(yield func(*resourceapi.ResourceSlice) bool) {
		number, complete := map[pool]map[int64]int64{}, map[pool]int64{}
		for slice := range all {
			generation := slice.Spec.Pool.Generation
			if number[of(slice)] == nil {
				number[of(slice)] = map[int64]int64{}
			}
			number[of(slice)][generation]++
			if number[of(slice)][generation] >= slice.Spec.Pool.ResourceSliceCount {
				complete[of(slice)] = max(complete[of(slice)], generation)
			}
		}
		for slice := range all {
			if slice.Spec.Pool.Generation >= complete[of(slice)] && !yield(slice) {
				return
			}
		}
	}
}
