// Package selector compiles and evaluates the CEL expressions of device selectors within
// bounds of its own. Kubernetes counts the cost of a call after the call, and looks at the
// context between the rounds of a loop only: one call can take hours.
package selector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types/ref"
	resourceapi "k8s.io/api/resource/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// ErrTooExpensive is the error of an expression that would take too long: its value is
// unknown.
var ErrTooExpensive = errors.New("too expensive to evaluate")

// A Compiler compiles expressions. The zero value is ready for use, by several goroutines at
// once.
type Compiler struct {
	Features dracel.Features

	once     sync.Once
	upstream upstream
}

// upstream is what dracel.GetCompiler returns. It keeps one compiler only, for the features of
// the last call.
type upstream interface {
	CompileCELExpression(expression string, options dracel.Options) dracel.CompilationResult
}

// Compile compiles an expression as the API server does. An expression that takes long to
// compile is not compiled. Evaluation of the result ends in a bounded time, with
// ErrTooExpensive where that does not suffice.
func (c *Compiler) Compile(expression string, options dracel.Options) dracel.CompilationResult {
	if reason := tooComplex(expression); reason != "" {
		return dracel.CompilationResult{
			Error:      &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: tooExpensive + reason},
			Expression: expression, MaxCost: math.MaxUint64,
		}
	}
	c.once.Do(func() { c.upstream = dracel.GetCompiler(c.Features) })
	result := c.upstream.CompileCELExpression(expression, options)
	if result.Error == nil {
		result.Program = &program{env: result.Environment, expression: expression}
	}
	return result
}

const tooExpensive = "cannot be checked: too expensive to compile: "

// TooExpensive reports whether an expression was not compiled because that takes too long.
func TooExpensive(result dracel.CompilationResult) bool {
	return result.Error != nil && strings.HasPrefix(result.Error.Detail, tooExpensive)
}

// A program evaluates an expression. It is made when it is used first: to check an expression
// needs none.
type program struct {
	env        *cel.Env
	expression string

	once    sync.Once
	bounded cel.Program
	err     error
}

var _ cel.Program = (*program)(nil)

// Eval is ContextEval without an end.
func (p *program) Eval(variables any) (ref.Val, *cel.EvalDetails, error) {
	return p.ContextEval(context.Background(), variables)
}

// ContextEval evaluates the expression.
func (p *program) ContextEval(ctx context.Context, variables any) (ref.Val, *cel.EvalDetails, error) {
	p.once.Do(func() { p.bounded, p.err = p.compile() })
	if p.err != nil {
		return nil, nil, p.err
	}
	given, is := variables.(map[string]any)
	if !is {
		return nil, nil, fmt.Errorf("the variables of an expression are %T: want a map", variables)
	}
	b := &budget{ctx: ctx, left: maxWork}
	given = maps.Clone(given)
	given[budgetVariable] = b
	value, details, err := p.bounded.ContextEval(ctx, given)
	if b.err != nil {
		return nil, details, b.err
	}
	return value, details, err
}

func (p *program) compile() (cel.Program, error) {
	ast, issues := p.env.Compile(p.expression)
	if issues != nil {
		return nil, issues.Err()
	}
	reads, tooLarge := loops(ast)
	if tooLarge {
		return nil, ErrTooExpensive
	}
	bindings := map[string]*functions.Overload{}
	for _, function := range p.env.Functions() {
		overloads, err := function.Bindings()
		if err != nil {
			return nil, fmt.Errorf("functions of CEL: %w", err)
		}
		for _, overload := range overloads {
			bindings[overload.Operator] = overload
		}
	}
	return p.env.Program(ast, cel.CustomDecoratorV2(bounds{bindings, reads}.decorate),
		cel.CostLimit(resourceapi.CELSelectorExpressionMaxCost), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
}
