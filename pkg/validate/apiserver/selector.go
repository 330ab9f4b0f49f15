package apiserver

import (
	"regexp"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/internal/cost/selector"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/form"
	"github.com/dra-steward/dra-steward/pkg/validate/internal/walk"
)

// selectorRules are the rules for a single selector, of a request or of a class.
var selectorRules = Table[walk.SelectorWalk]{
	{
		ID: "selector-form",
		Doc: `A selector is a CEL expression.

No other form of selector exists yet; a selector without cel selects nothing.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, DeviceSelector.CEL",
		Check:    selectorForm,
	},
	{
		ID: "selector-expression",
		Doc: `The expression of a selector compiles to a bool, within limits for length and cost.

It has at most 10240 bytes. The scheduler evaluates it for every device, so its estimated
cost on the largest possible device is at most 1,000,000. allowMultipleAllocations needs the
feature gate DRAConsumableCapacity, lists need DRAListTypeAttributes. Since 1.37 the API
server does not check the expressions of a class again while they do not change. dra-steward
uses the compiler of 1.37 with the environment of the selected minor version.`,
		Upstream: "the same, since 1.31",
		Source:   "KEP-4381, CELSelectorExpressionMaxLength, CELSelectorExpressionMaxCost",
		Check:    selectorExpression,
	},
}

func selectorForm(selectors walk.SelectorWalk, _ Pass) (errs field.ErrorList) {
	for at, selector := range selectors {
		if selector.CEL == nil {
			errs = append(errs, field.Required(at.Child("cel"), "write the condition as a CEL expression"))
		}
	}
	return errs
}

// SelectorErrors returns the API server's errors for the expressions of a list of
// selectors.
func SelectorErrors(list *field.Path, selectors []resourceapi.DeviceSelector, c Pass) field.ErrorList {
	return selectorExpression(walk.CheckedSelectors(list, selectors, c.server), c)
}

func selectorExpression(selectors walk.SelectorWalk, c Pass) (errs field.ErrorList) {
	if c.Expressions == nil {
		c.Expressions = &Expressions{}
	}
	for at, one := range selectors {
		if one.CEL != nil {
			found, _ := expressionErrors(at.Child("cel", "expression"), one.CEL.Expression, false, c)
			errs = append(errs, found...)
		}
	}
	return errs
}

// Expressions compiles CEL expressions and remembers the result: to compile one takes about
// a millisecond, and all claims of a cluster share a few expressions. The zero value is
// ready for use, by several goroutines at once.
type Expressions struct {
	mu        sync.Mutex
	compilers map[dracel.Features]*selector.Compiler
	verdicts  map[expression]verdict
	bytes     int
}

// rememberedBytes bounds the text of the expressions that are remembered.
const rememberedBytes = 1 << 20

// expression is what a verdict depends on.
type expression struct {
	text     string
	features dracel.Features
	// stored is true for an expression that an API server has accepted before.
	stored bool
	// derived is true for one that makes an attribute.
	derived bool
	// listless is true for an API server without the CEL library for lists.
	listless bool
}

type verdict struct {
	// kind is empty for an expression that compiles.
	kind   field.ErrorType
	detail string
	cost   uint64
}

// compile compiles an expression.
func (e *Expressions) compile(x expression) verdict {
	v, known, compiler := e.recall(x)
	if !known {
		v = verdictOf(compiler, x)
		e.remember(x, v)
	}
	return v
}

func (e *Expressions) recall(x expression) (v verdict, known bool, c *selector.Compiler) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v, known = e.verdicts[x]; known {
		return v, known, nil
	}
	if e.compilers[x.features] == nil {
		if e.compilers == nil {
			e.compilers = map[dracel.Features]*selector.Compiler{}
		}
		e.compilers[x.features] = &selector.Compiler{Features: x.features}
	}
	return v, false, e.compilers[x.features]
}

func (e *Expressions) remember(x expression, v verdict) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes += len(x.text); e.bytes > rememberedBytes || e.verdicts == nil {
		e.verdicts, e.bytes = map[expression]verdict{}, len(x.text)
	}
	e.verdicts[x] = v
}

func verdictOf(c *selector.Compiler, x expression) verdict {
	env := environment.NewExpressions
	if x.stored {
		env = environment.StoredExpressions
	}
	result := c.Compile(x.text, dracel.Options{EnvType: &env, DerivedAttribute: x.derived})
	if result.Error == nil && x.listless && usesLists(result) {
		return verdict{kind: field.ErrorTypeInvalid, detail: "compilation failed: the functions for lists exist since Kubernetes 1.35"}
	}
	if result.Error == nil {
		return verdict{cost: result.MaxCost}
	}
	kinds := map[apiservercel.ErrorType]field.ErrorType{
		apiservercel.ErrorTypeRequired: field.ErrorTypeRequired,
		apiservercel.ErrorTypeInvalid:  field.ErrorTypeInvalid,
	}
	kind, known := kinds[result.Error.Type]
	if !known {
		kind = field.ErrorTypeInternal
	}
	return verdict{kind: kind, detail: result.Error.Detail}
}

// expressionErrors reports an expression that is too long, does not compile or may
// cost too much. cost is what it may cost, 0 if that is unknown.
func expressionErrors(at *field.Path, text string, derived bool, c Pass) (errs field.ErrorList, cost uint64) {
	if c.stored && c.Profile.Since(37) {
		return nil, 0
	}
	if errs := form.TooLong(at, len(text), resourceapi.CELSelectorExpressionMaxLength); errs != nil {
		return errs, 0
	}
	if c.Expressions == nil {
		c.Expressions = &Expressions{}
	}
	v := c.Expressions.compile(newExpression(text, derived, c))
	switch {
	case v.kind != "":
		return field.ErrorList{{Type: v.kind, Field: at.String(), BadValue: text, Detail: v.detail}}, 0
	case v.cost > resourceapi.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(at, "too complex: it may cost more than the API server allows; bound what it iterates over")}, v.cost
	}
	return nil, v.cost
}

// newExpression returns the environment in which the API server of the profile compiles.
// The compiler is that of 1.37, whose environment for stored expressions knows more than
// that of 1.35 did, and whose environment for new ones knows more than that of 1.34.
func newExpression(text string, derived bool, c Pass) expression {
	x := expression{text: text, stored: c.stored, derived: derived, listless: !c.Profile.Since(35), features: dracel.Features{
		EnableConsumableCapacity: c.Profile.Enabled(gateConsumableCapacity),
		EnableListTypeAttributes: c.Profile.Enabled(gateListTypeAttributes),
	}}
	if c.stored && !c.Profile.Since(36) {
		x.stored, x.features.EnableConsumableCapacity = false, true
	}
	return x
}

// usesLists reports whether an expression calls a function of the library for lists.
func usesLists(result dracel.CompilationResult) bool {
	ast, issues := result.Environment.Compile(result.Expression)
	if issues != nil {
		return false
	}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		if slices.ContainsFunc(reference.OverloadIDs, listOverload.MatchString) {
			return true
		}
	}
	return false
}

// listOverload matches the overloads of that library.
var listOverload = regexp.MustCompile(`^(lists_range|list_(slice|reverse|distinct|flatten|flatten_int|.+_sort|.+_sortByAssociatedKeys))$`)
