package selector

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// loopsPerWork is how many reads in the rounds of a loop, for each round before, are a unit of work.
const loopsPerWork = 32

// spendLoop takes the work of a loop over a value from the budget, if it is a list or a map. For each variable
// that is read, cel-go searches all values that earlier rounds of the loop have left behind, so that its time is
// quadratic.
func (b *budget) spendLoop(value ref.Val, reads int) {
	sized, is := value.(traits.Sizer)
	if _, iterable := value.(traits.Iterable); b == nil || !is || !iterable {
		return
	}
	size, is := sized.Size().Value().(int64)
	if !is {
		return
	}
	if size > maxWork {
		b.end(ErrTooExpensive)
	}
	b.spend(int(min(size*size/loopsPerWork*int64(max(reads, 1)), maxWork+1)))
}

// plainAttribute is the type of what reads a variable or a field. What else cel-go makes of it, such as has(), it
// recognizes by its type when it counts the cost, so that it stays as it is.
const plainAttribute = "*interpreter.evalAttr"

// An attribute reads a variable, or a field of one.
type attribute struct {
	interpreter.InterpretableAttribute
	reads int
}

// Exec reads the value.
func (a *attribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	value := a.InterpretableAttribute.Exec(frame)
	budgetOf(frame).spendLoop(value, a.reads)
	return value
}

// Eval reads the value.
func (a *attribute) Eval(variables interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(variables))
}

// maxLiteral bounds the elements of a list or map that an expression writes out and loops over: cel-go makes a
// constant of it, which spends no work.
const maxLiteral = 128

// loops counts the variables and fields that an expression reads, and reports whether it loops over a literal
// that is too large.
func loops(checked *cel.Ast) (reads int, tooLarge bool) {
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind, ast.SelectKind:
			reads++
		case ast.ComprehensionKind:
			switch over := e.AsComprehension().IterRange(); over.Kind() {
			case ast.ListKind:
				tooLarge = tooLarge || over.AsList().Size() > maxLiteral
			case ast.MapKind:
				tooLarge = tooLarge || over.AsMap().Size() > maxLiteral
			}
		}
	}))
	return reads, tooLarge
}
