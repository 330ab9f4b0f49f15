package selector

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	// maxWork is how much work an evaluation may do: a byte that is read, or what takes as
	// long.
	maxWork = 4 << 20
	// callWork is the work of each call, beyond that for its arguments.
	callWork = 8
	// checkEvery is the work after which the context is looked at.
	checkEvery = 1 << 14
)

// budgetVariable is a name that no expression can use.
const budgetVariable = "#budget"

// A budget is the work that is left to an evaluation.
type budget struct {
	ctx             context.Context
	left, unchecked int
	// err is why the evaluation has ended.
	err error
}

// spend takes work from the budget, or ends the evaluation as cel-go does at its limit of
// cost: by a panic that its program recovers. After an error value, cel-go still computes the
// cost of the call, which can take as long as the call. Without a budget cel-go evaluates
// constants, to make a program.
func (b *budget) spend(work int) {
	if b == nil {
		return
	}
	if work > b.left {
		b.end(ErrTooExpensive)
	}
	b.left -= work
	if b.unchecked += work; b.unchecked >= checkEvery {
		b.unchecked = 0
		if b.ctx.Err() != nil {
			b.end(fmt.Errorf("operation interrupted: %w", context.Cause(b.ctx)))
		}
	}
}

func (b *budget) end(err error) {
	b.err = err
	panic(interpreter.EvalCancelledError{Message: err.Error()})
}

// bounds are what the bounds of an expression depend on.
type bounds struct {
	// overloads are the functions of the environment, by name and overload.
	overloads map[string]*functions.Overload
	// reads is how many variables and fields the expression reads.
	reads int
}

// decorate replaces a call by one that spends its work before it begins, and what can be the range of a loop by
// what spends the work of the loop.
func (b bounds) decorate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if read, is := node.(interpreter.InterpretableAttribute); is && fmt.Sprintf("%T", node) == plainAttribute {
		return &attribute{read, b.reads}, nil
	}
	planned, is := node.(interpreter.InterpretableCall)
	if !is {
		return node, nil
	}
	overload := b.overloads[planned.OverloadID()]
	if overload == nil {
		overload = b.overloads[planned.Function()]
	}
	if overload == nil || overload.NonStrict {
		return &round{planned}, nil
	}
	c := &call{InterpretableCall: planned, overload: overload, args: planned.Args(), work: workOf(planned.Function()), reads: b.reads}
	if usesPatterns(planned.Function()) {
		if err := c.prepare(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// A round is a call that costs the same whatever its arguments are, such as the check of a
// loop's condition.
type round struct{ interpreter.InterpretableCall }

// Exec evaluates the call.
func (r *round) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	budgetOf(frame).spend(callWork)
	return r.InterpretableCall.Exec(frame)
}

// Eval evaluates the call.
func (r *round) Eval(variables interpreter.Activation) ref.Val {
	return r.Exec(interpreter.AsFrame(variables))
}

// A call evaluates its arguments, and then the function if the budget allows it.
type call struct {
	interpreter.InterpretableCall
	overload *functions.Overload
	args     []interpreter.InterpretableV2
	work     work
	reads    int
	// pattern is the regular expression, if it is a constant.
	pattern *pattern
}

// Args returns the arguments.
func (c *call) Args() []interpreter.InterpretableV2 { return c.args }

// Exec evaluates the call.
func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	values := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		values[i] = arg.Exec(frame)
		if len(c.args) > 2 && types.IsUnknownOrError(values[i]) {
			return values[i] // of two, cel-go evaluates both, and counts the cost
		}
	}
	if failed := slices.IndexFunc(values, types.IsUnknownOrError); failed >= 0 {
		return values[failed]
	}
	b := budgetOf(frame)
	left := maxWork
	if b != nil {
		left = b.left
	}
	b.spend(callWork + c.work(c, values, left))
	value := c.apply(values)
	b.spendLoop(value, c.reads)
	return types.LabelErrNode(c.ID(), value)
}

// Eval evaluates the call.
func (c *call) Eval(variables interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(variables))
}

func (c *call) apply(values []ref.Val) ref.Val {
	o := c.overload
	switch c.Function() { // the functions of these names are placeholders
	case operators.Equals:
		return types.Equal(values[0], values[1])
	case operators.NotEquals:
		return types.Bool(types.Equal(values[0], values[1]) != types.True)
	}
	if c.pattern != nil && c.Function() == "matches" {
		if text, is := values[0].(types.String); is {
			return types.Bool(c.pattern.compiled.MatchString(string(text)))
		}
	}
	if len(values) > 0 && o.OperandTrait != 0 && !values[0].Type().HasTrait(o.OperandTrait) {
		return types.NewErr("no such overload: %s", c.Function())
	}
	switch {
	case len(values) == 1 && o.Unary != nil:
		return o.Unary(values[0])
	case len(values) == 2 && o.Binary != nil:
		return o.Binary(values[0], values[1])
	case o.Function != nil:
		return o.Function(values...)
	}
	return types.NewErr("no such overload: %s", c.Function())
}

func budgetOf(frame *interpreter.ExecutionFrame) *budget {
	found, _ := frame.ResolveName(budgetVariable)
	b, _ := found.(*budget)
	return b
}
