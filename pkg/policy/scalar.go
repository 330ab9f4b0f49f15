package policy

import (
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A scalar is a simple value of the input. The input is described by tables of them, so
// that a guard can look at a value without the term that a policy sees.
type scalar struct {
	kind   scalarKind
	truth  bool
	number int64
	text   string
}

type scalarKind uint8

const (
	undefined scalarKind = iota // there is no such value
	uncertain                   // there may be any value
	nothing                     // null
	boolean
	number
	letters
)

func textOf[T ~string](s T) scalar { return scalar{kind: letters, text: string(s)} }

func truthOf(b bool) scalar { return scalar{kind: boolean, truth: b} }

func numberOf(n int64) scalar { return scalar{kind: number, number: n} }

// scalarOf is a value of Rego; nil is none.
func scalarOf(value ast.Value) scalar {
	switch v := value.(type) {
	case nil:
		return scalar{}
	case ast.String:
		return textOf(v)
	case ast.Boolean:
		return truthOf(bool(v))
	case ast.Null:
		return scalar{kind: nothing}
	case ast.Number:
		if n, is := v.Int64(); is && strconv.FormatInt(n, 10) == string(v) {
			return numberOf(n)
		}
	}
	return scalar{kind: uncertain}
}

// term is the scalar as a policy sees it; nil if there is none.
func (s scalar) term() *ast.Term {
	switch s.kind {
	case nothing:
		return ast.NullTerm()
	case boolean:
		return ast.InternedTerm(s.truth)
	case number:
		if s.number == int64(int(s.number)) {
			return ast.InternedTerm(int(s.number))
		}
		return ast.NumberTerm(json.Number(strconv.FormatInt(s.number, 10)))
	case letters:
		return ast.InternedTerm(s.text)
	case undefined, uncertain:
	}
	return nil
}

// A verdict tells whether an expression holds, as far as that is known.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

func verdictOf(holds bool) verdict {
	if holds {
		return yes
	}
	return no
}

// not is the verdict on a negated expression.
func (v verdict) not() verdict { return yes - v }

// truthy tells whether an expression that is only a value holds.
func (s scalar) truthy() verdict {
	switch s.kind {
	case undefined:
		return no
	case uncertain:
		return maybe
	case nothing, boolean, number, letters:
	}
	return verdictOf(s.kind != boolean || s.truth)
}

// compare tells whether "a <operator> b" holds, in the names of Rego's functions.
func compare(operator string, a, b scalar) verdict {
	switch {
	case a.kind == undefined || b.kind == undefined:
		return no
	case a.kind == uncertain || b.kind == uncertain:
		return maybe
	}
	equal := a == b
	switch operator {
	case "eq", "equal":
		return verdictOf(equal)
	case "neq":
		return verdictOf(!equal)
	}
	if a.kind != b.kind || a.kind == boolean {
		return maybe // Rego has an order of those too, which nobody means
	}
	order := cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.text, b.text))
	switch operator {
	case "gt":
		return verdictOf(order > 0)
	case "gte":
		return verdictOf(order >= 0)
	case "lt":
		return verdictOf(order < 0)
	case "lte":
		return verdictOf(order <= 0)
	}
	return maybe
}
