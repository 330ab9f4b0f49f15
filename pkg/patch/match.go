package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	selectorcel "github.com/dra-steward/dra-steward/internal/cost/selector"
)

const (
	// MaxCost bounds what an expression may cost for one device.
	MaxCost = resourceapi.CELSelectorExpressionMaxCost
	// SliceCost bounds what all expressions of a filter together, those of its class
	// included, may cost for the devices of one slice. Beyond it, the result for the slice is
	// unknown: the patch applies to no device of it. The bound is a cost and not a time, so
	// that all programs get the same result.
	SliceCost = MaxCost / 10
	// SelectionCost bounds what the selector of a drain or a reaction may cost for all devices.
	SelectionCost = 10 * MaxCost
)

// ErrUnfinished is why an evaluation has no result yet.
var ErrUnfinished = errors.New("not evaluated: the cost limit is reached")

// comparePatches orders patches by precedence: what comes first wins. The higher priority,
// then the older, then the first by name.
func comparePatches(a, b *Patch) int {
	return cmp.Or(
		cmp.Compare(b.priority(), a.priority()),
		cmp.Compare(a.created(), b.created()),
		cmp.Compare(a.Object.Name, b.Object.Name),
	)
}

func (p *Patch) priority() int64 {
	if p.Object.Spec.Devices.Priority == nil {
		return 0
	}
	return *p.Object.Spec.Devices.Priority
}

// created is in whole seconds, as an API server stores it.
func (p *Patch) created() int64 {
	if p.Object.CreationTimestamp.IsZero() {
		return 1<<63 - 1 // not stored yet, so it is the youngest
	}
	return p.Object.CreationTimestamp.Unix()
}

// Selects reports whether a patch may apply to devices of a pool. It is cheap.
func (p *Patch) Selects(driver, pool string) bool {
	return !p.unusable &&
		(p.filter.Driver == nil || *p.filter.Driver == driver) &&
		(p.filter.Pool == nil || *p.filter.Pool == pool)
}

// An Evaluation holds the results of expressions for the devices of a slice, evaluated on
// demand. It is used by one goroutine at a time.
type Evaluation struct {
	// Limit bounds what all that is evaluated may cost together; 0 is no bound. Beyond it,
	// there is no result, but ErrUnfinished; with a higher limit the evaluation goes on.
	Limit uint64

	slice    *resourceapi.ResourceSlice
	verdicts map[*program]*verdicts
	spent    uint64
	kept     int // bytes, in a Set
	// views are those of the devices that an expression was evaluated for.
	views []view
}

// Spent is what the evaluated expressions have cost, in the units of [MaxCost].
func (e *Evaluation) Spent() uint64 { return e.spent }

// verdicts are the results of one expression for the devices of a slice.
type verdicts struct {
	// of has for each device a state and, above it, the cost.
	of []uint32
	// failure is the error of the device with the index failedAt. That of another one is
	// found again when it is needed: an error text can be long, and devices are many.
	failedAt int
	failure  string
	// asked is true if they have been used since patches were applied last.
	asked bool
}

// The states of a verdict. Its cost is at most CELSelectorExpressionMaxCost, which
// fits above them.
const (
	unknown = iota
	yes
	no
	failed
	states
)

// NewEvaluation starts with no expression evaluated.
func NewEvaluation(slice *resourceapi.ResourceSlice) *Evaluation { return &Evaluation{slice: slice} }

// Next returns an Evaluation of the slice that replaces that of e: the results for a device
// are kept if no expression can see a difference.
func (e *Evaluation) Next(slice *resourceapi.ResourceSlice) *Evaluation {
	next := NewEvaluation(slice)
	if e == nil || e.slice.Spec.Driver != slice.Spec.Driver || len(e.verdicts) == 0 {
		return next
	}
	before := make(map[string]int, len(e.slice.Spec.Devices))
	for i := range e.slice.Spec.Devices {
		before[e.slice.Spec.Devices[i].Name] = i
	}
	next.verdicts = make(map[*program]*verdicts, len(e.verdicts))
	for program := range e.verdicts {
		next.verdicts[program] = &verdicts{of: make([]uint32, len(slice.Spec.Devices))}
	}
	for i := range slice.Spec.Devices {
		was, known := before[slice.Spec.Devices[i].Name]
		if !known || !looksAlike(&e.slice.Spec.Devices[was], &slice.Spec.Devices[i]) {
			continue
		}
		for program, v := range next.verdicts {
			last := e.verdicts[program]
			v.of[i] = last.of[was]
			if last.failure != "" && last.failedAt == was {
				v.failedAt, v.failure = i, last.failure
			}
		}
	}
	return next
}

// looksAlike reports whether expressions see the same in two devices.
func looksAlike(a, b *resourceapi.Device) bool {
	return reflect.DeepEqual(a.AllowMultipleAllocations, b.AllowMultipleAllocations) &&
		reflect.DeepEqual(a.Attributes, b.Attributes) && reflect.DeepEqual(a.Capacity, b.Capacity)
}

// ask evaluates an expression for a device unless that was done.
func (e *Evaluation) ask(ctx context.Context, p *program, device int) (state, cost uint32, err error) {
	v := e.verdicts[p]
	if v == nil {
		if e.verdicts == nil {
			e.verdicts = map[*program]*verdicts{}
		}
		v = &verdicts{of: make([]uint32, len(e.slice.Spec.Devices))}
		e.verdicts[p] = v
	}
	v.asked = true
	if v.of[device] == unknown {
		if e.Limit > 0 && e.spent >= e.Limit {
			return unknown, 0, ErrUnfinished
		}
		verdict, failure := p.evaluate(ctx, e.view(p, device))
		if ctx.Err() != nil {
			return unknown, 0, context.Cause(ctx)
		}
		v.of[device] = verdict
		e.spent += uint64(verdict / states)
		if verdict%states == failed && v.failure == "" {
			v.failedAt, v.failure = device, failure
		}
	}
	return v.of[device] % states, v.of[device] / states, nil
}

// failureOf describes the failure of an expression for a device.
func (e *Evaluation) failureOf(ctx context.Context, s selector, device int) (string, error) {
	v := e.verdicts[s.program]
	if v.failure == "" || v.failedAt != device {
		_, failure := s.evaluate(ctx, e.view(s.program, device))
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		v.failedAt, v.failure = device, failure
	}
	return fmt.Sprintf("device %s of ResourceSlice %s: %s: %s", e.slice.Spec.Devices[device].Name, e.slice.Name, s.place, v.failure), nil
}

// bytes is about how much memory the results need.
func (e *Evaluation) bytes() (bytes int) {
	for _, v := range e.verdicts {
		bytes += 128 + len(v.failure) + 4*len(v.of)
	}
	return bytes
}

// matches are those of patches that match devices, or failed to.
func (e *Evaluation) matches(ctx context.Context, patches iter.Seq[*Patch]) (matches []Match, err error) {
	defer func() { e.views = nil }() // they need more memory than the slice
	for p := range patches {
		m, err := p.match(ctx, e)
		if err != nil {
			return nil, err
		}
		if m.Devices > 0 || m.Failures.Devices > 0 {
			matches = append(matches, m)
		}
	}
	for program, v := range e.verdicts {
		if !v.asked {
			delete(e.verdicts, program)
		}
		v.asked = false
	}
	return matches, nil
}

// A Match is the set of devices of a slice that a patch applies to.
type Match struct {
	Patch *Patch
	// Devices is their number.
	Devices int
	// Failures are about devices that an expression failed for, to which the patch
	// does not apply.
	Failures Failures

	set  []uint64
	cost uint64
}

// Failures sums up what went wrong for some devices.
type Failures struct {
	// Devices is their number.
	Devices int
	// First describes the first of them: slice, device, expression and error.
	First string
	// Expensive is true if the expressions cost more than SliceCost for a slice.
	Expensive bool
}

// has reports whether the patch applies to the device with an index.
func (m Match) has(device int) bool {
	return device/64 < len(m.set) && m.set[device/64]&(1<<(device%64)) != 0
}

// match returns the devices of the evaluation's slice that a patch applies to.
func (p *Patch) match(ctx context.Context, e *Evaluation) (Match, error) {
	m := Match{Patch: p}
	if !p.Selects(e.slice.Spec.Driver, e.slice.Spec.Pool.Name) {
		return m, nil
	}
	candidates := 0
	for i := range e.slice.Spec.Devices {
		if p.filter.Device != nil && *p.filter.Device != e.slice.Spec.Devices[i].Name {
			continue
		}
		if candidates++; m.cost > SliceCost {
			continue
		}
		last, state, cost, err := p.accepts(ctx, e, i)
		if err != nil {
			return m, err
		}
		m.cost += cost
		switch state {
		case failed:
			if m.Failures.Devices++; m.Failures.Devices == 1 {
				if m.Failures.First, err = e.failureOf(ctx, last, i); err != nil {
					return m, err
				}
			}
		case yes:
			m.add(i, len(e.slice.Spec.Devices))
		}
	}
	if m.cost > SliceCost {
		return Match{Patch: p, cost: m.cost, Failures: Failures{Devices: candidates, Expensive: true, First: tooExpensive(e.slice.Name, SliceCost)}}, nil
	}
	for _, word := range m.set {
		m.Devices += bits.OnesCount64(word)
	}
	return m, nil
}

func tooExpensive(slice string, limit uint64) string {
	return fmt.Sprintf("ResourceSlice %s: too expensive: the expressions cost more than %d: write cheaper expressions, or name the driver, the pool or the device", slice, limit)
}

func (m *Match) add(device, devices int) {
	if m.set == nil {
		m.set = make([]uint64, (devices+63)/64)
	}
	m.set[device/64] |= 1 << (device % 64)
}

// accepts evaluates the selectors one after the other until one is false or fails, which it
// returns.
func (p *Patch) accepts(ctx context.Context, e *Evaluation, device int) (last selector, state uint32, spent uint64, _ error) {
	for _, s := range p.selectors {
		state, cost, err := e.ask(ctx, s.program, device)
		if err != nil {
			return s, unknown, spent, err
		}
		if spent += uint64(cost); state != yes {
			return s, state, spent, nil
		}
	}
	return last, yes, spent, nil
}

// A view is what expressions see of a device. To make one takes several times as long as
// to evaluate an expression, so that all expressions share it.
type view struct {
	variables any
	// err is why there is none.
	err error
}

// view returns the view of a device. Which expression asks for it makes no difference.
func (e *Evaluation) view(p *program, device int) view {
	if e.views == nil {
		e.views = make([]view, len(e.slice.Spec.Devices))
	}
	v := &e.views[device]
	if v.variables == nil && v.err == nil {
		*v = p.view(e.slice.Spec.Driver, &e.slice.Spec.Devices[device])
	}
	return *v
}

// view lets the compiled expression make its variables without evaluating it.
func (p *program) view(driver string, device *resourceapi.Device) (v view) {
	compiled := p.compiled
	compiled.Program = keeper{&v.variables}
	_, _, v.err = compiled.DeviceMatches(context.Background(), dracel.Device{
		Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes: device.Attributes, Capacity: device.Capacity,
	})
	return v
}

func (p *program) evaluate(ctx context.Context, v view) (verdict uint32, failure string) {
	if v.err != nil {
		return failed, v.err.Error()
	}
	compiled := p.compiled
	compiled.Program = replacer{p.compiled.Program, v.variables}
	matches, details, err := compiled.DeviceMatches(ctx, dracel.Device{})
	verdict = no
	switch {
	case err != nil:
		verdict, failure = failed, err.Error()
	case matches:
		verdict = yes
	}
	switch {
	case errors.Is(err, selectorcel.ErrTooExpensive):
		verdict += states * MaxCost
	case details != nil && details.ActualCost() != nil:
		verdict += states * uint32(min(*details.ActualCost(), MaxCost))
	}
	return verdict, failure
}

// A keeper is a program that keeps what it is given.
type keeper struct{ variables *any }

func (k keeper) Eval(variables any) (ref.Val, *cel.EvalDetails, error) {
	*k.variables = variables
	return types.True, nil, nil
}

func (k keeper) ContextEval(_ context.Context, variables any) (ref.Val, *cel.EvalDetails, error) {
	return k.Eval(variables)
}

// A replacer is a program that sees other variables than it is given.
type replacer struct {
	program   cel.Program
	variables any
}

func (r replacer) Eval(any) (ref.Val, *cel.EvalDetails, error) { return r.program.Eval(r.variables) }

func (r replacer) ContextEval(ctx context.Context, _ any) (ref.Val, *cel.EvalDetails, error) {
	return r.program.ContextEval(ctx, r.variables)
}
