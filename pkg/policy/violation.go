package policy

import (
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

// decode reads what a policy objects to. Anything but violations of the documented form
// is an error: a policy that says nothing intelligible has not judged.
func decode(policy Metadata, mode Mode, said ast.Value) ([]Violation, error) {
	set, is := said.(ast.Set)
	if !is {
		return nil, fmt.Errorf("%s: deny is %v, must be a set of violations", policy.Code, said)
	}
	violations := make([]Violation, 0, set.Len())
	for _, one := range set.Slice() {
		fields, is := one.Value.(ast.Object)
		if !is {
			return nil, fmt.Errorf("%s: a violation is %v, must be an object with message and paths", policy.Code, one)
		}
		v, err := violation(fields)
		if err != nil {
			return nil, fmt.Errorf("%s: a violation %v: %w", policy.Code, one, err)
		}
		v.Code, v.Mode = policy.Code, mode
		violations = append(violations, v)
	}
	slices.SortFunc(violations, compareViolations)
	return violations, nil
}

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
		return "", fmt.Errorf("%s is %v, must be a string", name.Value.(ast.String), value)
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
		return nil, fmt.Errorf("%s is %v, must be a list of strings", name.Value.(ast.String), value)
	}
	var all strings.Builder
	words := make([]string, len(list))
	for i, one := range list {
		text, is := one.Value.(ast.String)
		if !is {
			return nil, fmt.Errorf("%s has %v, must be strings", name.Value.(ast.String), one)
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
