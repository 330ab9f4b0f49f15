package policy

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// fields are fields of the input, a bit for each of inputFields.
type fields uint32

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
	known    map[*ast.Rule]fields
}

func newReaders(compiler *ast.Compiler) readers {
	return readers{compiler, map[*ast.Rule]fields{}}
}

// policy returns what the rules at data.<path>.deny read.
func (r readers) policy(path string) (reads fields) {
	for _, rule := range denials(r.compiler, path) {
		reads |= r.rule(rule)
	}
	return reads
}

func denials(compiler *ast.Compiler, path string) []*ast.Rule {
	return compiler.GetRulesExact(ast.MustParseRef("data." + path + ".deny"))
}

func (r readers) rule(rule *ast.Rule) fields {
	if reads, known := r.known[rule]; known {
		return reads
	}
	r.known[rule] = 0 // rules are not recursive
	reads := readBy(rule)
	for node := rule; node != nil; node = node.Else {
		for used := range r.compiler.Graph.Dependencies(node) {
			if used, is := used.(*ast.Rule); is {
				reads |= r.rule(used)
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
		return false
	})
	return reads
}
