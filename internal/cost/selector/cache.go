package selector

import (
	"slices"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/dra-steward/dra-steward/internal/memory/sizedcache"
)

// A Cache remembers compiled expressions. Several goroutines may use it.
type Cache struct {
	compiler Compiler
	programs *sizedcache.Cache[string, compiled]
}

type compiled struct {
	dracel.CompilationResult
	cheap bool
}

const (
	cacheBytes = 16 << 20
	// ProgramBytes is about what a compiled program takes for each byte of its expression, and
	// ProgramLeast what it takes at least.
	ProgramBytes, ProgramLeast = 32, 8 << 10
)

// NewCache returns an empty cache.
func NewCache(features dracel.Features) *Cache {
	return &Cache{Compiler{Features: features}, sizedcache.New[string, compiled](cacheBytes)}
}

// GetOrCompile returns a compiled expression. Its cost is not estimated.
func (c *Cache) GetOrCompile(expression string) dracel.CompilationResult {
	return c.get(expression).CompilationResult
}

// Cheap reports whether every evaluation of an expression is known to be cheap, without the
// bounds of this package as well.
func (c *Cache) Cheap(expression string) bool { return c.get(expression).cheap }

func (c *Cache) get(expression string) compiled {
	if known, ok := c.programs.Get(expression); ok {
		return known
	}
	made := compiled{c.compiler.Compile(expression, dracel.Options{DisableCostEstimation: true}), false}
	made.cheap = !TooExpensive(made.CompilationResult) && isCheap(expression)
	c.programs.Add(expression, made, int64(ProgramLeast+ProgramBytes*len(expression)))
	return made
}

// cheap are functions that take no longer than their arguments are long, and that make no
// argument longer.
var cheap = []string{
	operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional, operators.Equals, operators.NotEquals, operators.Less,
	operators.LessEquals, operators.Greater, operators.GreaterEquals, operators.In, operators.Index, operators.OptIndex, operators.OptSelect, operators.Negate,
	operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo, operators.Has, "startsWith", "endsWith", "contains", "lowerAscii", "upperAscii",
	"size", "compareTo", "isGreaterThan", "isLessThan", "sign", "isInteger", "asInteger", "major", "minor", "patch", "orValue", "hasValue", "optional.none",
}

// parsers are functions that are cheap for a constant within the bounds.
var parsers = []string{"quantity", "isQuantity", "semver", "isSemver"}

func isCheap(expression string) bool {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return false
	}
	tree, errs := p.Parse(common.NewTextSource(expression))
	if errs != nil && len(errs.GetErrors()) > 0 {
		return true // nothing is evaluated
	}
	is := true
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		name, args := e.AsCall().FunctionName(), e.AsCall().Args()
		switch {
		case slices.Contains(parsers, name) && len(args) > 0 && args[0].Kind() == ast.LiteralKind:
			literal, _ := args[0].AsLiteral().(types.String)
			is = is && quantityOf(nil, []ref.Val{literal}, maxWork) <= maxWork
		case !slices.Contains(cheap, name):
			is = false
		}
	}))
	return is
}
