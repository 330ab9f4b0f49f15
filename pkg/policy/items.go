package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// use is what rules use of a list of the input, so that no more of it is built.
type use struct {
	// fields are those of the items that are used, by their places in the table of the
	// list; the bit behind them is for the one that is not simple.
	fields uint32
	// loops is how often rules go through the list, one item at a time and without
	// minding the others.
	loops int
	// whole tells that the list is used in another way, too.
	whole bool
}

// lists of the input of which a part is built.
const (
	tolerationList = iota
	requestList
	partLists
)

type uses [partLists]use

var listRefs = [partLists]ast.Ref{ast.MustParseRef("input.tolerations"), ast.MustParseRef("input.claim.requests")}

var listTables = [partLists]*[]listField{&tolerationFields, &requestFields}

var wholeList = use{fields: ^uint32(0), whole: true}

// add adds what else is used.
func (u *use) add(other use) {
	u.fields |= other.fields
	u.loops += other.loops
	u.whole = u.whole || other.whole
}

func (u *uses) add(other uses) {
	for i := range u {
		u[i].add(other[i])
	}
}

// usesOf finds out how a rule and its "else" use the lists.
func usesOf(rule *ast.Rule) uses {
	found := useFinder{items: map[ast.Var]int{}, indexes: map[ast.Var]int{}, bindings: map[*ast.Expr]bool{}}
	ast.WalkExprs(rule, func(expr *ast.Expr) bool {
		found.bind(expr)
		return false
	})
	found.walk(rule)
	return found.uses
}

// useFinder walks through a rule whose items have been found.
type useFinder struct {
	uses     uses
	items    map[ast.Var]int
	indexes  map[ast.Var]int
	bindings map[*ast.Expr]bool
}

// bind takes "item = input.list[index]", which is what "some item in input.list" becomes.
func (f *useFinder) bind(expr *ast.Expr) {
	terms, is := expr.Terms.([]*ast.Term)
	if !is || len(terms) != 3 || expr.Negated || len(expr.With) > 0 || !terms[0].Equal(unification) {
		return
	}
	for _, side := range [][2]*ast.Term{{terms[1], terms[2]}, {terms[2], terms[1]}} {
		item, isVar := side[0].Value.(ast.Var)
		ref, isRef := side[1].Value.(ast.Ref)
		if !isVar || !isRef {
			continue
		}
		list, rest := listOf(ref)
		if list < 0 || len(rest) != 1 {
			continue
		}
		index, isVar := rest[0].Value.(ast.Var)
		_, again := f.items[item]
		if _, used := f.indexes[index]; !isVar || used || again {
			continue
		}
		f.items[item], f.indexes[index], f.bindings[expr] = list, list, true
		f.uses[list].loops++
		return
	}
}

var unification = ast.NewTerm(ast.Equality.Ref())

// listOf is the list that a reference begins with, and what follows; none is -1.
func listOf(ref ast.Ref) (list int, rest ast.Ref) {
	for i, name := range listRefs {
		if ref.HasPrefix(name) {
			return i, ref[len(name):]
		}
	}
	return -1, nil
}

func (f *useFinder) walk(node any) {
	ast.NewGenericVisitor(func(node any) bool {
		switch node := node.(type) {
		case *ast.Expr:
			return f.bindings[node]
		case ast.Ref:
			f.ref(node)
			for _, step := range node[1:] {
				f.walk(step)
			}
			return true
		case ast.Var:
			if list, is := f.items[node]; is {
				f.uses[list].add(wholeList)
			}
			if list, is := f.indexes[node]; is {
				f.uses[list].whole = true
			}
		}
		return false
	}).Walk(node)
}

func (f *useFinder) ref(ref ast.Ref) {
	if head, is := ref[0].Value.(ast.Var); is {
		if list, is := f.items[head]; is {
			f.field(list, ref[1:], false)
		}
	}
	if list, rest := listOf(ref); list >= 0 {
		if len(rest) > 0 {
			rest = rest[1:]
		}
		f.field(list, rest, true)
		return
	}
	for i, name := range listRefs {
		if mayReach(ref, name) {
			f.uses[i].add(wholeList)
		}
	}
}

// mayReach tells whether a reference may be of what a list is in, or of the list in a way
// that is not constant.
func mayReach(ref, list ast.Ref) bool {
	for i := range min(len(ref), len(list)) {
		if _, constant := ref[i].Value.(ast.String); (constant || i == 0) && !ref[i].Equal(list[i]) {
			return false
		}
	}
	return true
}

// field takes the use of a field of an item.
func (f *useFinder) field(list int, rest ast.Ref, whole bool) {
	f.uses[list].whole = f.uses[list].whole || whole
	if len(rest) > 0 {
		if name, constant := rest[0].Value.(ast.String); constant {
			f.uses[list].fields |= fieldBit(*listTables[list], string(name))
			return
		}
	}
	f.uses[list].add(wholeList)
}

// fieldBit is that of a field; the one behind the table stands for all others.
func fieldBit(table []listField, name string) uint32 {
	for i := range table {
		if table[i].name == name {
			return 1 << i
		}
	}
	return 1 << len(table)
}

// view is the part of the input that is built.
type view struct {
	reading
	// keep are the items of the lists that are built; nil stands for all.
	keep [partLists][]bool
}

// viewOf is what some judges have to see.
func viewOf(s *subject, judges []*judge, asked *question) view {
	v := view{reading: asked.reading}
	for list := range v.keep {
		v.keep[list] = needed(s, judges, list)
	}
	return v
}

// has tells whether an item is in it.
func (v *view) has(list, item int) bool { return v.keep[list] == nil || v.keep[list][item] }

// needed marks the items of a list about which rules may hold; nil stands for all.
func needed(s *subject, judges []*judge, list int) []bool {
	loops := false
	for _, one := range judges {
		if !one.one.uses[list].each(one.guards, list) {
			return nil
		}
		loops = loops || one.one.uses[list].loops > 0
	}
	if !loops {
		return nil
	}
	var keep []bool
	for _, one := range judges {
		for i := range one.guards {
			keep = one.guards[i].mark(s, list, keep)
		}
	}
	return keep
}

// each tells whether the guards know every place where rules go through the list.
func (u use) each(all guards, list int) bool {
	known := 0
	for i := range all {
		for j := range all[i].loops {
			if all[i].loops[j].list.part == list+1 {
				known++
			}
		}
	}
	return !u.whole && known == u.loops
}

// mark marks the items that the rule has to look at.
func (g *guard) mark(s *subject, list int, keep []bool) []bool {
	if !g.may(s) {
		return keep
	}
	for i := range g.loops {
		if l := &g.loops[i]; l.list.part == list+1 {
			if keep == nil {
				keep = make([]bool, l.list.length(s))
			}
			for item := range keep {
				keep[item] = keep[item] || l.mayFor(s, item)
			}
		}
	}
	return keep
}
