package policy

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A prefilter finds out, without Rego and without building the input, that a policy reports
// nothing about a write. It is derived from the policy.
//
// Without it, a decision about a claim with 8 requests and 4 tolerations takes 340 µs of CPU
// instead of 16 µs, and one with a single toleration 175 µs instead of 4 µs, where a whole
// admission request takes about 500 µs (BenchmarkLibrary, decisions that are not kept).
// Delete it when the difference is below a tenth of an admission request: if OPA skips rules
// by their first conditions, or if most decisions are kept.
type prefilter interface {
	// mayReport is false if no rule of the policy can hold, not even fail.
	mayReport(s *subject) bool
}

// ruleFilter has the conditions with which the body of a rule begins, as far as they are
// simple. What follows the first expression that could fail with an error is not part of
// it, so a rule that is skipped would not even have failed.
type ruleFilter struct {
	always []predicate
	loops  []loopFilter
}

// loopFilter is the part of a ruleFilter about one item of a list: there must be one for
// which all predicates may hold.
type loopFilter struct {
	list list
	each []predicate
}

// predicate is a condition; item is the item of the loop, if it is in one.
type predicate func(s *subject, item int) verdict

// operand is a value; item is the item of the loop, if it is in one.
type operand func(s *subject, item int) scalar

// list is something that rules go through.
type list struct {
	length func(*subject) int
	// field returns a field of the items, the item itself for the empty name; nil if
	// it is not known.
	field func(name string) operand
}

// mayHold reports whether the rule may hold.
func (g *ruleFilter) mayHold(s *subject) bool {
	for _, holds := range g.always {
		if holds(s, 0) == no {
			return false
		}
	}
	for i := range g.loops {
		if !g.loops[i].mayHold(s) {
			return false
		}
	}
	return true
}

func (l *loopFilter) mayHold(s *subject) bool {
	for item := range l.list.length(s) {
		if l.mayFor(s, item) {
			return true
		}
	}
	return false
}

func (l *loopFilter) mayFor(s *subject, item int) bool {
	return !slices.ContainsFunc(l.each, func(holds predicate) bool { return holds(s, item) == no })
}

// ruleFilters are those of the rules of a policy, one of which must be able to hold.
type ruleFilters []ruleFilter

func (all ruleFilters) mayReport(s *subject) bool {
	for i := range all {
		if all[i].mayHold(s) {
			return true
		}
	}
	return false
}

// filterBuilder derives filters from rules.
type filterBuilder struct {
	compiler *ast.Compiler
	// parameters are the references to parameters that filters read; a scope has
	// their values in this order.
	parameters *[]ast.Ref
}

func (g filterBuilder) policy(path string) (all ruleFilters) {
	for _, rule := range denials(g.compiler, path) {
		one, _ := g.rule(rule)
		all = append(all, one)
	}
	return all
}

// rule derives the filter of a rule. harmless is true if the rule cannot fail.
func (g filterBuilder) rule(rule *ast.Rule) (_ ruleFilter, harmless bool) {
	b := body{filterBuilder: g, locals: map[ast.Var]value{}}
	for _, expr := range rule.Body {
		if !b.read(expr) {
			return b.filter, false
		}
	}
	return b.filter, true
}

// parameter is the value of a parameter: input.parameters.<code>.<name>.
func (g filterBuilder) parameter(ref ast.Ref) func(*subject) ast.Value {
	place := slices.IndexFunc(*g.parameters, func(known ast.Ref) bool { return known.Equal(ref) })
	if place < 0 {
		place = len(*g.parameters)
		*g.parameters = append(*g.parameters, ref)
	}
	return func(s *subject) ast.Value { return s.in.found[place] }
}

// parameterList is a list or an object among the parameters. Only the items of a list of
// simple values are known.
func (g filterBuilder) parameterList(ref ast.Ref) list {
	of := g.parameter(ref)
	return list{
		length: func(s *subject) int {
			switch all := of(s).(type) {
			case nil:
				return 0
			case *ast.Array:
				return all.Len()
			case ast.Object:
				return all.Len()
			}
			return 1
		},
		field: func(name string) operand {
			return func(s *subject, item int) scalar {
				if all, is := of(s).(*ast.Array); is && name == "" {
					return scalarOf(all.Elem(item).Value)
				}
				return scalar{kind: uncertain}
			}
		},
	}
}

// tableList is a list of the input that has a table of its fields.
func tableList(table []listField, length func(*devices) int) list {
	return list{
		length: func(s *subject) int { return length(s.devices) },
		field: func(name string) operand {
			for i := range table {
				if table[i].name == name {
					get := table[i].get
					return func(s *subject, item int) scalar { return get(s.devices, item) }
				}
			}
			return nil
		},
	}
}

// lists are those of the input that filters know.
var lists = map[string]list{
	"tolerations":    tableList(tolerationFields, func(d *devices) int { return len(d.tolerations) }),
	"claim.requests": tableList(requestFields, func(d *devices) int { return len(d.requests) }),
	// Without a ClusterView there are no classes.
	"classes": tableList(classFields, func(d *devices) int {
		if d.world == nil {
			return 0
		}
		return len(d.requests)
	}),
	"tolerationLists": tableList(listFields, func(d *devices) int { return len(d.lists) }),
}

// body reads the body of a rule, expression by expression.
type body struct {
	filterBuilder
	filter ruleFilter
	locals map[ast.Var]value
}

// value is what is known of a term; the zero value is nothing.
type value struct {
	// of is the value, nil if it is not known or not simple.
	of operand
	// loop is the loop that the value is of, by its place plus one.
	loop int
	// item is set if it is the item of the loop itself.
	item bool
	// members is the list that the value is.
	members *list
}

// read adds an expression to the filter, or skips it. It returns false if the expression
// could fail, so that what follows cannot be part of the filter.
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
	var any ruleFilters
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
		if any.mayReport(s) {
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
		b.filter.loops = append(b.filter.loops, loopFilter{list: items})
		b.locals[name] = value{of: items.field(""), loop: len(b.filter.loops), item: true}
		return true
	}
	b.locals[name] = b.value(to)
	return true
}

// items reports whether a term goes through a list: its last step is a new variable.
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
		b.filter.always = append(b.filter.always, holds)
		return
	}
	b.filter.loops[loop-1].each = append(b.filter.loops[loop-1].each, holds)
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
		return value{of: b.filter.loops[local.loop-1].list.field(steps[0]), loop: local.loop}
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

// harmless reports whether evaluating a term cannot fail: it calls nothing and uses no
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
