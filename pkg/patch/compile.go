package patch

import (
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A Compiler turns patches into what can be applied, and remembers compiled
// expressions: to compile one takes a millisecond. The environment and the limit of
// cost are those that kube-scheduler evaluates the selectors of claims in. The zero
// value is ready for use, by several goroutines at once.
type Compiler struct {
	mu       sync.Mutex
	programs map[string]*program
	bytes    int
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
	// Object is what the patch was compiled from. It must not be changed.
	Object *v1alpha1.ResourceSlicePatch
	// Problems are the faults of the patch by itself, whatever devices there are.
	Problems []Problem

	filter    v1alpha1.DevicePatchFilter
	selectors []selector
	// changes are the valid ones, attributes first, in the order of their names.
	changes []change
	// unusable says that the filter cannot be evaluated: the patch applies to nothing.
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
	// Message says what is wrong, where, and what would be right.
	Message string
}

// A Reason says in one word why a patch or a part of it does not apply.
type Reason string

const (
	// ClassNotFound says that there is no DeviceClass of the filter's name: the patch
	// applies to no device until there is one.
	ClassNotFound Reason = "ClassNotFound"
	// CELError says that an expression does not compile: the patch applies to no
	// device. Or that it failed for some: the patch does not apply to these.
	CELError Reason = "CELError"
	// InvalidValue says that a name or value is none that a slice could have. The
	// patch applies without it.
	InvalidValue Reason = "InvalidValue"
	// LimitReached says that devices have no room for an attribute or capacity. The
	// patch applies to these without it.
	LimitReached Reason = "LimitReached"
)

// Compile makes a Patch. class is the DeviceClass that the filter names, nil if there
// is none. Nothing that is wrong with the patch keeps it from being compiled: see
// [Patch.Problems].
func (c *Compiler) Compile(object *v1alpha1.ResourceSlicePatch, class *resourceapi.DeviceClass) *Patch {
	p := &Patch{Object: object}
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
	made.compiled = dracel.GetCompiler(dracel.Features{}).CompileCELExpression(expression,
		dracel.Options{DisableCostEstimation: true})
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
