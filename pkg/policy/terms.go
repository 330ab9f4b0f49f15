package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// keys are the keys of an object of the input; an object is made of them and as many
// values. Terms do not change, so these are made once.
type keys []*ast.Term

func keysOf(names ...string) keys {
	var k keys
	for _, name := range names {
		k = append(k, ast.StringTerm(name))
	}
	return k
}

func (k keys) object(values ...*ast.Term) *ast.Term {
	object := ast.NewObjectWithCapacity(len(k))
	for i, value := range values {
		if value != nil {
			object.Insert(k[i], value)
		}
	}
	return ast.NewTerm(object)
}

func text[T ~string](s T) *ast.Term { return ast.InternedTerm(string(s)) }

func truth(b bool) *ast.Term { return ast.InternedTerm(b) }

func whole(n int64) *ast.Term {
	return ast.NumberTerm(json.Number(strconv.FormatInt(n, 10)))
}

func texts[T ~string](all []T) *ast.Term {
	terms := make([]*ast.Term, len(all))
	for i, one := range all {
		terms[i] = text(one)
	}
	return ast.ArrayTerm(terms...)
}

func textMap(all map[string]string) *ast.Term {
	object := ast.NewObjectWithCapacity(len(all))
	for key, value := range all {
		object.Insert(text(key), text(value))
	}
	return ast.NewTerm(object)
}

// parsed is JSON as a term; null if there is none. JSON that OPA cannot read, such as a
// number with a huge exponent, is an error: as null it would hide from policies what
// drivers may read.
func (s *subject) parsed(path string, data []byte) *ast.Term {
	if len(data) == 0 {
		return ast.NullTerm()
	}
	value, err := ast.ValueFromReader(bytes.NewReader(data))
	if err != nil {
		s.unreadable = append(s.unreadable, Failure{Path: path, Unreadable: true, Err: fmt.Errorf("policies cannot read the JSON: %w", err)})
		return ast.NullTerm()
	}
	return ast.NewTerm(value)
}
