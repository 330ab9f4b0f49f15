package policy

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A guard tells, without Rego and without the input, that a rule cannot hold for a write:
// it is made of the conditions with which the body of the rule begins, as far as they are
// simple. What stands behind the first expression that could fail with an error is not
// looked at, so a rule that is passed over would have had nothing to say, not even that
// it is broken.
type guard struct {
	always []predicate
	loops  []loopGuard
}

// loopGuard is the part of a guard about one item of a list: there must be one for which
// all predicates may hold.
type loopGuard struct {
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

// may tells whether the rule may hold.
func (g *guard) may(s *subject) bool {
	for _, holds := range g.always {
		if holds(s, 0) == no {
			return false
		}
	}
	for i := range g.loops {
		if !g.loops[i].may(s) {
			return false
		}
	}
	return true
}

func (l *loopGuard) may(s *subject) bool {
	for item := range l.list.length(s) {
		if l.mayFor(s, item) {
			return true
		}
	}
	return false
}

func (l *loopGuard) mayFor(s *subject, item int) bool {
	return !slices.ContainsFunc(l.each, func(holds predicate) bool { return holds(s, item) == no })
}

// guards are those of the rules of a policy, one of which must be able to hold.
type guards []guard

func (all guards) may(s *subject) bool {
	for i := range all {
		if all[i].may(s) {
			return true
		}
	}
	return false
}

// guarding makes guards.
type guarding struct {
	compiler *ast.Compiler
	// parameters are the references to parameters that guards look at; a scope has
	// their values in this order.
	parameters *[]ast.Ref
}

func (g guarding) policy(path string) (all guards) {
	for _, rule := range denials(g.compiler, path) {
		one, _ := g.rule(rule)
		all = append(all, one)
	}
	return all
}

// rule makes the guard of a rule. harmless tells whether evaluating the rule cannot fail.
func (g guarding) rule(rule *ast.Rule) (_ guard, harmless bool) {
	b := body{guarding: g, locals: map[ast.Var]value{}}
	for _, expr := range rule.Body {
		if !b.read(expr) {
			return b.guard, false
		}
	}
	return b.guard, true
}

// parameter is the value of a parameter: input.parameters.<code>.<name>.
func (g guarding) parameter(ref ast.Ref) func(*subject) ast.Value {
	place := slices.IndexFunc(*g.parameters, func(known ast.Ref) bool { return known.Equal(ref) })
	if place < 0 {
		place = len(*g.parameters)
		*g.parameters = append(*g.parameters, ref)
	}
	return func(s *subject) ast.Value { return s.in.found[place] }
}

// parameterList is a list among the parameters. Of anything else than a list of simple
// values nothing is known.
func (g guarding) parameterList(ref ast.Ref) list {
	of := g.parameter(ref)
	return list{
		length: func(s *subject) int {
			switch all := of(s).(type) {
			case nil:
				return 0
			case *ast.Array:
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

// lists are those of the input that guards know.
var lists = map[string]list{
	"tolerations":    tableList(tolerationFields, func(d *devices) int { return len(d.tolerations) }),
	"claim.requests": tableList(requestFields, func(d *devices) int { return len(d.demands) }),
	// Without a World there are no classes.
	"classes": tableList(classFields, func(d *devices) int {
		if d.world == nil {
			return 0
		}
		return len(d.demands)
	}),
	"tolerationLists": tableList(listFields, func(d *devices) int { return len(d.lists) }),
}
