package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// fields are fields of the input, a bit for each of inputFields.
type fields uint32

// readsKeys is a bit for has.keys, which costs more than the rest of has.
const readsKeys fields = 1 << 31

const everything = ^fields(0)

func (f fields) any(of fields) bool { return f&of != 0 }

// fieldNamed is the bit of a field; none for a field that there is not.
func fieldNamed(name string) fields {
	for i := range inputFields {
		if inputFields[i].name == name {
			return 1 << i
		}
	}
	return 0
}

// readers finds out what rules read, with all the rules that they use.
type readers struct {
	compiler *ast.Compiler
	known    map[*ast.Rule]reading
}

// reading is what is read of the input: fields, and parts of its lists.
type reading struct {
	fields
	uses
}

func (r *reading) add(other reading) {
	r.fields |= other.fields
	r.uses.add(other.uses)
}

func newReaders(compiler *ast.Compiler) readers {
	return readers{compiler, map[*ast.Rule]reading{}}
}

// policy returns what the rules at data.<path>.deny read.
func (r readers) policy(path string) (reads reading) {
	for _, rule := range denials(r.compiler, path) {
		reads.add(r.rule(rule))
	}
	return reads
}

func denials(compiler *ast.Compiler, path string) []*ast.Rule {
	return compiler.GetRulesExact(ast.MustParseRef("data." + path + ".deny"))
}

func (r readers) rule(rule *ast.Rule) reading {
	if reads, known := r.known[rule]; known {
		return reads
	}
	r.known[rule] = reading{} // rules are not recursive
	reads := reading{readBy(rule), usesOf(rule)}
	for node := rule; node != nil; node = node.Else {
		for used := range r.compiler.Graph.Dependencies(node) {
			if used, is := used.(*ast.Rule); is {
				reads.add(r.rule(used))
			}
		}
	}
	r.known[rule] = reads
	return reads
}

// readBy looks for input.<field> in a rule and its "else"; input as a whole may be
// anything, and so may what a reference into data finds that is not constant.
func readBy(rule *ast.Rule) (reads fields) {
	ast.WalkRefs(rule, func(ref ast.Ref) bool {
		if !ref[0].Equal(ast.InputRootDocument) {
			return false
		}
		if len(ref) == 1 {
			reads = everything
			return true
		}
		name, constant := ref[1].Value.(ast.String)
		if !constant {
			reads = everything
			return true
		}
		reads |= fieldNamed(string(name))
		if name == "has" && (len(ref) == 2 || ref[2].Equal(hasKeysKey) || !ref[2].IsGround()) {
			reads |= readsKeys
		}
		return false
	})
	return reads
}
