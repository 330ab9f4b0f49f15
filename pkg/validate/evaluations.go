package validate

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"weak"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/internal/sizedcache"
)

// MaxEvaluations is how often selectors are evaluated for one object, a selector on a
// device. What is remembered costs nothing.
const MaxEvaluations = 10000

// Turns bound the time in which selectors are evaluated, and share it out.
type Turns interface {
	// Take waits for a turn. It returns a context that ends when the turn is over and
	// a function that gives it back; false if there is none to be had in time.
	Take() (turn context.Context, done func(), ok bool)
}

// Evaluations evaluates selectors on devices and remembers what came of it, by the
// expression and the slice: a slice that changes is another one. The zero value is ready
// for use, by several goroutines at once.
type Evaluations struct {
	// CacheBytes is the size of what is remembered; zero is 16 MiB, negative remembers
	// nothing.
	CacheBytes int64

	once     sync.Once
	compiler compiler
	// What claims say does not push out what classes say, which few may write.
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
	// programBytes is about what a compiled program takes for each byte of its
	// expression, and at least.
	programBytes, programLeast = 32, 8 << 10
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
		e.compiler = dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
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

// outcome is what comes of a selector on a device.
type outcome uint8

const (
	unknown outcome = iota
	matches
	differs
	fails
)

// outcomes are those of an expression on the devices of a slice.
type outcomes struct {
	mu      sync.Mutex
	devices []outcome
	// failure is the message of the first that fails.
	failure string
}

// place is an expression on a slice. It does not keep a slice alive that was replaced.
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
	result := e.compiler.CompileCELExpression(expression, dracel.Options{DisableCostEstimation: true})
	if len(expression) <= rememberedExpression {
		m.programs.Add(expression, result, int64(programLeast+programBytes*len(expression)))
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
	if program.Error != nil {
		return matches, ""
	}
	is, _, err := program.DeviceMatches(turn, dracel.Device{Driver: slice.Spec.Driver,
		AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity})
	switch {
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
	turns Turns
	turn  context.Context
	done  func()
	// spent are the evaluations; over says that there is nothing left.
	spent int
	over  bool
}

// may tells whether one evaluation more is allowed, and takes the turn for the first.
func (e *effort) may() bool {
	if e.turn == nil && !e.over {
		e.turn, e.done = context.Background(), func() {}
		if e.turns != nil {
			turn, done, ok := e.turns.Take()
			if e.over = !ok; ok {
				e.turn, e.done = turn, done
			}
		}
	}
	if !e.over && (e.spent >= MaxEvaluations || e.turn.Err() != nil) {
		e.over = true
	}
	if e.over {
		return false
	}
	e.spent++
	return true
}

// end gives the turn back.
func (e *effort) end() {
	if e.done != nil {
		e.done()
	}
}
