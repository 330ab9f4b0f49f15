package why

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/parser"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/text/printable"
)

// A term is one condition of an expression; all of them must be true.
type term struct {
	text string
	// domain and name are those of the attribute or capacity that it looks at, empty if
	// it has another form.
	domain, name string
	// left is the text of the attribute if the term compares it with a string, and literal
	// that string.
	left, literal string
}

// terms splits an expression at its conjunctions. It returns nil for an expression that
// cannot be parsed.
func terms(expression string) []term {
	p, err := parser.NewParser(parser.Macros(parser.AllMacros...), parser.PopulateMacroCalls(true), parser.EnableOptionalSyntax(true))
	if err != nil {
		return nil
	}
	tree, errs := p.Parse(common.NewTextSource(expression))
	if errs != nil && len(errs.GetErrors()) > 0 {
		return nil
	}
	var all []term
	for _, e := range conjuncts(tree.Expr()) {
		text, err := unparse(e, tree.SourceInfo())
		if err != nil {
			return nil
		}
		t := term{text: text}
		t.compare(e, tree.SourceInfo())
		all = append(all, t)
	}
	return all
}

func unparse(e ast.Expr, info *ast.SourceInfo) (string, error) {
	return parser.Unparse(e, info, parser.WrapOnColumn(1<<20))
}

func conjuncts(e ast.Expr) []ast.Expr {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		args := e.AsCall().Args()
		return append(conjuncts(args[0]), conjuncts(args[1])...)
	}
	return []ast.Expr{e}
}

// compare finds the attribute of a term, and the string that it must be equal to.
func (t *term) compare(e ast.Expr, info *ast.SourceInfo) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if domain, name, ok := attribute(e); ok && t.name == "" {
			t.domain, t.name = domain, name
		}
	}))
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Equals {
		return
	}
	args := slices.Clone(e.AsCall().Args())
	if args[0].Kind() == ast.LiteralKind {
		slices.Reverse(args)
	}
	_, _, ok := attribute(args[0])
	literal, isString := args[1].AsLiteral().(types.String)
	if !ok || !isString {
		return
	}
	if left, err := unparse(args[0], info); err == nil {
		t.left, t.literal = left, string(literal)
	}
}

// attribute recognizes device.attributes["domain"].name and device.capacity["domain"].name.
func attribute(e ast.Expr) (domain, name string, ok bool) {
	inner := e
	switch {
	case e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly():
		inner, name = e.AsSelect().Operand(), e.AsSelect().FieldName()
	default:
		if inner, name, ok = index(e); !ok {
			return "", "", false
		}
	}
	inner, domain, ok = index(inner)
	if !ok || inner.Kind() != ast.SelectKind {
		return "", "", false
	}
	field, device := inner.AsSelect().FieldName(), inner.AsSelect().Operand()
	return domain, name, (field == "attributes" || field == "capacity") && device.Kind() == ast.IdentKind && device.AsIdent() == "device"
}

func index(e ast.Expr) (of ast.Expr, key string, ok bool) {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
		return nil, "", false
	}
	args := e.AsCall().Args()
	literal, ok := args[1].AsLiteral().(types.String)
	return args[0], string(literal), ok
}

// value returns the text of the attribute or capacity of a device that a term looks at.
func (t term) value(driver string, device *resourceapi.Device) (string, bool) {
	names := []resourceapi.QualifiedName{resourceapi.QualifiedName(t.domain + "/" + t.name)}
	if t.domain == driver {
		names = append(names, resourceapi.QualifiedName(t.name))
	}
	for _, name := range names {
		if a, ok := device.Attributes[name]; ok {
			return printable.Attribute(a), true
		}
		if c, ok := device.Capacity[name]; ok {
			return c.Value.String(), true
		}
	}
	return "", false
}

// present is an expression that is true if a device has the attribute of a term.
func (t term) present() string {
	field := "attributes"
	if strings.Contains(t.text, "device.capacity[") {
		field = "capacity"
	}
	return fmt.Sprintf("%q in device.%s[%q]", t.name, field, t.domain)
}

// with returns the expression of terms in which one is replaced, or left out if it is
// empty.
func with(all []term, i int, replacement string) string {
	var texts []string
	for j, t := range all {
		switch {
		case j != i && needsParentheses(t.text):
			texts = append(texts, "("+t.text+")")
		case j != i:
			texts = append(texts, t.text)
		case replacement != "":
			texts = append(texts, replacement)
		}
	}
	if texts == nil {
		return "true"
	}
	return strings.Join(texts, " && ")
}

// needsParentheses is true for a term that would bind weaker than the conjunction.
func needsParentheses(text string) bool {
	return strings.Contains(text, "||") || strings.Contains(text, "?")
}
