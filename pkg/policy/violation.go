package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// The fields of a violation.
var (
	messageKey = ast.StringTerm("message")
	hintKey    = ast.StringTerm("hint")
	belowKey   = ast.StringTerm("field")
	allowedKey = ast.StringTerm("allowed")
)

// maxViolations is the number of violations of one policy that are decoded.
const maxViolations = 1024

// decode reads the violations that a policy reports. Any other form is an error: a policy
// whose result is not understood was not evaluated.
func decode(ctx context.Context, policy Metadata, mode Mode, reported ast.Value) ([]Violation, error) {
	set, is := reported.(ast.Set)
	if !is {
		return nil, fmt.Errorf("%s: deny must be a set of violations, is %s", policy.Code, typeOf(reported))
	}
	if set.Len() > maxViolations {
		return []Violation{{Code: policy.Code, Mode: mode, Message: fmt.Sprintf("%d violations, too many to list", set.Len())}}, nil
	}
	violations := make([]Violation, 0, set.Len())
	for _, one := range set.Slice() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fields, is := one.Value.(ast.Object)
		if !is {
			return nil, fmt.Errorf("%s: a violation must be an object with message and paths, is %s", policy.Code, typeOf(one.Value))
		}
		v, err := violation(fields)
		if err != nil {
			return nil, fmt.Errorf("%s: violation: %w", policy.Code, err)
		}
		v.Code, v.Mode = policy.Code, mode
		violations = append(violations, v)
	}
	slices.SortFunc(violations, compareViolations)
	return violations, nil
}

func typeOf(value ast.Value) string { return "a value of type " + ast.ValueName(value) }

func violation(fields ast.Object) (v Violation, problem error) {
	v.Message, problem = word(fields, messageKey, problem)
	v.Hint, problem = word(fields, hintKey, problem)
	below, problem := word(fields, belowKey, problem)
	v.Paths, problem = words(fields, pathsKey, below, problem)
	v.Allowed, problem = words(fields, allowedKey, "", problem)
	if problem == nil && v.Message == "" {
		problem = errors.New("message is missing")
	}
	return v, problem
}

func word(fields ast.Object, name *ast.Term, before error) (string, error) {
	value := fields.Get(name)
	if before != nil || value == nil {
		return "", before
	}
	text, is := value.Value.(ast.String)
	if !is {
		return "", fmt.Errorf("%s must be a string, is %s", name.Value.(ast.String), typeOf(value.Value))
	}
	return string(text), nil
}

// words reads a list of strings and puts what stands below behind each.
func words(fields ast.Object, name *ast.Term, below string, before error) ([]string, error) {
	value := fields.Get(name)
	if before != nil || value == nil {
		return nil, before
	}
	list, is := items(value.Value)
	if !is {
		return nil, fmt.Errorf("%s must be a list of strings, is %s", name.Value.(ast.String), typeOf(value.Value))
	}
	var all strings.Builder
	words := make([]string, len(list))
	for i, one := range list {
		text, is := one.Value.(ast.String)
		if !is {
			return nil, fmt.Errorf("%s must be a list of strings, has %s", name.Value.(ast.String), typeOf(one.Value))
		}
		words[i] = string(text)
		if below != "" {
			all.Grow((len(text) + 1 + len(below)) * (len(list) - i))
			begin := all.Len()
			all.WriteString(words[i])
			all.WriteByte('.')
			all.WriteString(below)
			words[i] = all.String()[begin:]
		}
	}
	return words, nil
}

// items are those of a list or, in their order, of a set.
func items(value ast.Value) ([]*ast.Term, bool) {
	list, is := value.(*ast.Array)
	if set, isSet := value.(ast.Set); isSet {
		list, is = set.Sorted(), true
	}
	if !is {
		return nil, false
	}
	terms := make([]*ast.Term, list.Len())
	for i := range terms {
		terms[i] = list.Elem(i)
	}
	return terms, true
}
