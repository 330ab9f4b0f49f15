package policy

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkMembership refuses what OPA 1.22 gets wrong without a word: its index of rules
// takes the constants of `x in {"a", input.b}` for all there is, and the rule is never
// true by input.b.
func checkMembership(modules map[string]*ast.Module) error {
	m := memberships{}
	for _, module := range modules {
		m.walk(module)
	}
	return errors.Join(m.errs...)
}

var errMixed = errors.New("constants and other values in one collection behind \"in\": OPA looks at the constants only; put the collection into a variable first")

type memberships struct{ errs []error }

func (m *memberships) walk(node any) {
	ast.NewGenericVisitor(func(node any) bool {
		switch node := node.(type) {
		case *ast.SomeDecl: // "some x in" goes through all
			for _, symbol := range node.Symbols {
				if call, is := symbol.Value.(ast.Call); is {
					m.walk(call[len(call)-1])
				}
			}
			return true
		case *ast.Expr:
			if terms, is := node.Terms.([]*ast.Term); is {
				m.check(terms, node.Loc())
			}
		case *ast.Term:
			if call, is := node.Value.(ast.Call); is {
				m.check(call, node.Loc())
			}
		}
		return false
	}).Walk(node)
}

func (m *memberships) check(call []*ast.Term, at *ast.Location) {
	if len(call) == 3 && call[0].Equal(member) && mixed(call[2].Value) {
		m.errs = append(m.errs, positionedError{at, errMixed})
	}
}

var member = ast.NewTerm(ast.Member.Ref())

// mixed reports whether a collection has constants and other values.
func mixed(collection ast.Value) bool {
	constants, others := 0, 0
	count := func(t *ast.Term) {
		if t.IsGround() && !hasRef(t) {
			constants++
		} else {
			others++
		}
	}
	switch collection := collection.(type) {
	case *ast.Array:
		collection.Foreach(count)
	case ast.Set:
		collection.Foreach(count)
	}
	return constants > 0 && others > 0
}

// hasRef reports whether a term refers to something else: a reference is ground if it has
// no variables.
func hasRef(t *ast.Term) (found bool) {
	ast.WalkTerms(t, func(t *ast.Term) bool {
		switch t.Value.(type) {
		case ast.Ref, ast.Call, ast.Var:
			found = true
		}
		return found
	})
	return found
}
