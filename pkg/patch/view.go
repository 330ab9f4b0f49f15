package patch

import (
	"context"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// A view is what expressions see of a device. To make one takes several times as long as
// to evaluate an expression, so that all expressions share it.
type view struct {
	variables any
	// err says why there is none.
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

// evaluate needs no context to be cancelled by: the limit of cost bounds its time.
func (p *program) evaluate(v view) (verdict uint32, failure string) {
	if v.err != nil {
		return failed, v.err.Error()
	}
	compiled := p.compiled
	compiled.Program = replacer{p.compiled.Program, v.variables}
	matches, details, err := compiled.DeviceMatches(context.Background(), dracel.Device{})
	verdict = no
	switch {
	case err != nil:
		verdict, failure = failed, err.Error()
	case matches:
		verdict = yes
	}
	if details != nil && details.ActualCost() != nil {
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
