package policy

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// body reads the body of a rule, expression by expression.
type body struct {
	guarding
	guard  guard
	locals map[ast.Var]value
}

// value is what is known of a term; the zero value is nothing.
type value struct {
	// of is the value, nil if it is not known or not simple.
	of operand
	// loop is the loop that the value is of, by its place plus one.
	loop int
	// item tells that it is the item of the loop itself.
	item bool
	// members is the list that the value is.
	members *list
}

// read takes an expression into the guard, or passes over it. It returns false if the
// expression could fail, so that what follows must not be looked at.
func (b *body) read(expr *ast.Expr) bool {
	if len(expr.With) > 0 {
		return false
	}
	switch terms := expr.Terms.(type) {
	case *ast.Term:
		return b.term(terms, expr.Negated)
	case []*ast.Term:
		return b.call(terms, expr.Negated)
	}
	return false
}

// term takes an expression that is only a value.
func (b *body) term(t *ast.Term, negated bool) bool {
	if !harmless(t) {
		return !negated && b.condition(t)
	}
	if ref, is := t.Value.(ast.Ref); is {
		if v := b.ref(ref); v.of != nil {
			of := v.of
			b.add(v.loop, negated, func(s *subject, item int) verdict { return of(s, item).truthy() })
		}
	}
	return true
}

// condition takes a rule that is only true or undefined, as "looked_for if {...}".
func (b *body) condition(t *ast.Term) bool {
	ref, is := t.Value.(ast.Ref)
	if !is || !ref.IsGround() {
		return false
	}
	var any guards
	all := true
	for _, rule := range b.compiler.GetRulesExact(ref) {
		if rule.Default || rule.Else != nil || len(rule.Head.Args) > 0 || rule.Head.DocKind() != ast.CompleteDoc {
			return false
		}
		one, harmless := b.rule(rule)
		any, all = append(any, one), all && harmless
	}
	if len(any) == 0 {
		return false
	}
	b.add(0, false, func(s *subject, _ int) verdict {
		if any.may(s) {
			return maybe
		}
		return no
	})
	return all
}

// harmlessCalls are functions that take any values and never fail.
var harmlessCalls = map[string]bool{"eq": true, "equal": true, "neq": true, "gt": true, "gte": true, "lt": true, "lte": true, "internal.member_2": true}

func (b *body) call(terms []*ast.Term, negated bool) bool {
	operator := terms[0].Value.String()
	if !harmlessCalls[operator] || len(terms) != 3 || !harmless(terms[1]) || !harmless(terms[2]) {
		return false
	}
	if operator == "eq" && !negated && (b.bind(terms[1], terms[2]) || b.bind(terms[2], terms[1])) {
		return true
	}
	left, right := b.value(terms[1]), b.value(terms[2])
	if operator == "internal.member_2" {
		if left.of != nil && right.members != nil {
			b.member(left, *right.members, negated)
		}
		return true
	}
	if left.of == nil || right.of == nil || left.loop != 0 && right.loop != 0 && left.loop != right.loop {
		return true
	}
	b.add(max(left.loop, right.loop), negated, func(s *subject, item int) verdict {
		return compare(operator, left.of(s, item), right.of(s, item))
	})
	return true
}

// bind takes "variable = value" for a variable that is new; the value may be the items of
// a list.
func (b *body) bind(variable, to *ast.Term) bool {
	name, is := variable.Value.(ast.Var)
	if !is {
		return false
	}
	if _, known := b.locals[name]; known {
		return false
	}
	if items, is := b.items(to); is {
		b.guard.loops = append(b.guard.loops, loopGuard{list: items})
		b.locals[name] = value{of: items.field(""), loop: len(b.guard.loops), item: true}
		return true
	}
	b.locals[name] = b.value(to)
	return true
}

// items tells whether a term goes through a list: its last step is a new variable.
func (b *body) items(t *ast.Term) (list, bool) {
	ref, is := t.Value.(ast.Ref)
	if !is || len(ref) < 3 {
		return list{}, false
	}
	last := len(ref) - 1
	index, is := ref[last].Value.(ast.Var)
	if _, bound := b.locals[index]; !is || bound {
		return list{}, false
	}
	v := b.ref(ref[:last])
	if v.members == nil {
		return list{}, false
	}
	b.locals[index] = value{}
	return *v.members, true
}

// add adds a predicate to the loop that it is about.
func (b *body) add(loop int, negated bool, holds predicate) {
	if negated {
		positive := holds
		holds = func(s *subject, item int) verdict { return positive(s, item).not() }
	}
	if loop == 0 {
		b.guard.always = append(b.guard.always, holds)
		return
	}
	b.guard.loops[loop-1].each = append(b.guard.loops[loop-1].each, holds)
}

// member adds "value in list".
func (b *body) member(v value, all list, negated bool) {
	each := all.field("")
	if each == nil {
		return
	}
	b.add(v.loop, negated, func(s *subject, item int) verdict {
		found, one := no, v.of(s, item)
		if one.kind == undefined {
			return no
		}
		for i := range all.length(s) {
			found = max(found, compare("equal", one, each(s, i)))
		}
		return found
	})
}

func (b *body) value(t *ast.Term) value {
	switch v := t.Value.(type) {
	case ast.String, ast.Boolean, ast.Null, ast.Number:
		constant := scalarOf(v)
		return value{of: func(*subject, int) scalar { return constant }}
	case ast.Var:
		return b.locals[v]
	case ast.Ref:
		return b.ref(v)
	}
	return value{}
}

// ref is what is known of a reference.
func (b *body) ref(ref ast.Ref) value {
	steps := make([]string, 0, len(ref))
	for _, step := range ref[1:] {
		name, constant := step.Value.(ast.String)
		if !constant {
			break
		}
		steps = append(steps, string(name))
	}
	head, _ := ref[0].Value.(ast.Var)
	if !ref[0].Equal(ast.InputRootDocument) {
		local := b.locals[head]
		if !local.item || len(ref) != 2 || len(steps) != 1 {
			return value{}
		}
		return value{of: b.guard.loops[local.loop-1].list.field(steps[0]), loop: local.loop}
	}
	path := strings.Join(steps, ".")
	switch {
	case len(steps) < len(ref)-1:
		return value{}
	case len(steps) == 3 && steps[0] == "parameters":
		of, all := b.parameter(ref), b.parameterList(ref)
		return value{of: func(s *subject, _ int) scalar { return scalarOf(of(s)) }, members: &all}
	}
	v := value{}
	if of := valueFields[path]; of != nil {
		v.of = func(s *subject, _ int) scalar { return of(s) }
	}
	if all, known := lists[path]; known {
		v.members = &all
	}
	return v
}

// harmless tells whether evaluating a term cannot fail: it calls nothing and uses no
// other rule.
func harmless(t *ast.Term) bool {
	fine := true
	ast.WalkTerms(t, func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Call, *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			fine = false
		case ast.Ref:
			fine = fine && !v[0].Equal(ast.DefaultRootDocument)
		}
		return !fine
	})
	return fine
}
