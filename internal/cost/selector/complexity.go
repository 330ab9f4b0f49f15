package selector

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	resourceapi "k8s.io/api/resource/v1"
)

const (
	// maxCalls bounds the calls of functions with several types of arguments: the time that the
	// compiler takes grows with the square of their number, and for a thousand it is a second.
	maxCalls = 400
	// maxDepth bounds lists in lists.
	maxDepth = 12
	// maxParts bounds how deep any parts are in one another.
	maxParts = 60
)

// tooComplex returns why an expression takes too long to compile, or nothing. One that cannot
// be parsed is for the compiler to check.
func tooComplex(expression string) string {
	if len(expression) > resourceapi.CELSelectorExpressionMaxLength {
		return fmt.Sprintf("it has %d bytes, more than %d", len(expression), resourceapi.CELSelectorExpressionMaxLength)
	}
	// Without macros: what they repeat is counted, and not made.
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.MaxRecursionDepth(maxParts))
	if err != nil {
		return err.Error()
	}
	tree, errs := p.Parse(common.NewTextSource(expression))
	if errs != nil && len(errs.GetErrors()) > 0 {
		for _, problem := range errs.GetErrors() {
			if strings.Contains(problem.Message, "recursion") {
				return fmt.Sprintf("it has parts in one another, more than %d deep", maxParts)
			}
		}
		return ""
	}
	c := complexity{variables: map[string]int{}}
	calls, depth := c.of(tree.Expr())
	switch {
	case c.reason != "":
		return c.reason
	case depth > maxDepth:
		return fmt.Sprintf("it has lists or maps in one another, more than %d deep", maxDepth)
	case calls > maxCalls:
		return fmt.Sprintf("it calls too many functions: write it with at most %d calls and comparisons, those that macros repeat included", maxCalls)
	}
	return ""
}

// complexity is what the type checker has to do.
type complexity struct {
	reason string
	// variables are those of macros, with the depth of their values.
	variables map[string]int
}

// of returns how many calls the type checker sees in an expression, and how deep its value is,
// each bounded.
func (c *complexity) of(e ast.Expr) (calls, depth int) {
	switch e.Kind() {
	case ast.IdentKind:
		return 0, c.variables[e.AsIdent()]
	case ast.CallKind:
		return c.call(e.AsCall())
	case ast.SelectKind:
		return c.of(e.AsSelect().Operand())
	case ast.ListKind:
		calls, depth = c.all(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n, d := c.all([]ast.Expr{entry.AsMapEntry().Key(), entry.AsMapEntry().Value()})
			calls, depth = min(calls+n, maxCalls+1), max(depth, d)
		}
	default:
		return 0, 0
	}
	return calls + min(depth, 1), min(depth, maxDepth) + 1
}

func (c *complexity) all(parts []ast.Expr) (calls, depth int) {
	for _, part := range parts {
		n, d := c.of(part)
		calls, depth = min(calls+n, maxCalls+1), max(depth, d)
	}
	return calls, depth
}

// macros are what the calls in the expansion of a macro count, and how much deeper the result
// is than the body.
var macros = map[string]struct{ calls, deeper int }{
	"all": {2, 0}, "exists": {2, 0}, "existsOne": {4, 0}, "exists_one": {4, 0}, "map": {4, 1}, "filter": {4, 0},
	"transformList": {4, 1}, "transformMap": {4, 1}, "transformMapEntry": {4, 1}, "sortBy": {6, 1},
	"optMap": {4, 1}, "optFlatMap": {4, 1}, "bind": {0, 0},
}

// free are operators that the type checker does not choose among.
var free = []string{operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.Negate}

// call counts a call. Before its expansion, a macro is a call.
func (c *complexity) call(e ast.CallExpr) (calls, depth int) {
	name, args := e.FunctionName(), e.Args()
	if e.IsMemberFunction() {
		calls, depth = c.of(e.Target())
	}
	macro, is := macros[name]
	switch {
	case is:
		if name == "optMap" || name == "optFlatMap" {
			calls *= 2 // the target is copied
		}
		calls, depth = c.macro(name, args, calls, depth)
		calls, depth = calls+macro.calls, depth+macro.deeper
	default:
		n, d := c.all(args)
		calls, depth = calls+n, max(depth, d)
		if !slices.Contains(free, name) {
			calls++
		}
		c.patterns(name, args)
	}
	return min(calls, maxCalls+1), min(depth, maxDepth+1)
}

// macro counts the arguments of a macro, in which its variables are as deep as its target, or
// as the value that they are bound to.
func (c *complexity) macro(name string, args []ast.Expr, calls, depth int) (int, int) {
	bound := depth
	if name == "bind" && len(args) == 3 {
		calls, bound = c.of(args[1])
		args = []ast.Expr{args[0], args[2]}
	}
	before := maps.Clone(c.variables)
	for _, arg := range args[:max(len(args)-1, 0)] {
		if arg.Kind() == ast.IdentKind {
			c.variables[arg.AsIdent()] = bound
		}
	}
	n, d := c.all(args)
	c.variables = before
	return calls + n, max(depth, d)
}

// patterns checks constant regular expressions, which are compiled with the expression.
func (c *complexity) patterns(function string, args []ast.Expr) {
	for _, arg := range args {
		if literal, is := arg.AsLiteral().(types.String); is && usesPatterns(function) && patternSize(string(literal)) > maxPattern {
			c.reason = fmt.Sprintf("the regular expression of %s is too large", function)
		}
	}
}
