package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/labels"
)

// Settings are what a site decides about its policies. Codes that no policy has are
// passed over: a set may come and go on its own.
type Settings struct {
	// Disabled switches all policies off.
	Disabled bool
	// Own returns what becomes of the mode that a policy has by itself; nil leaves it.
	Own func(Mode) Mode
	// Modes replace the modes of the METADATA, by code.
	Modes map[string]Mode
	// Parameters replace single parameters of the METADATA, by code and name.
	Parameters map[string]map[string]any
	// Namespaces say what is different in some namespaces. Where a namespace stands in
	// more than one, later ones count more.
	Namespaces []Override
	// Timeout ends the evaluation for one write; zero is one second.
	Timeout time.Duration
	// Limits bound the work that one object can cause.
	Limits Limits
	// CacheBytes is the size of the decisions that are kept; zero is 16 MiB, negative
	// keeps none.
	CacheBytes int64
	// Only leaves out all policies but those that need this part of the input, such as
	// NeedsImpact; empty leaves out none.
	Only string
}

// An Override is what is different in some namespaces: those with a name, and those with
// labels that the selector selects. Labels that are not known are selected by nothing.
type Override struct {
	Names      []string
	Selector   labels.Selector
	Modes      map[string]Mode
	Parameters map[string]map[string]any
}

const (
	defaultTimeout    = time.Second
	defaultCacheBytes = 16 << 20
)

// scope is what holds in a namespace.
type scope struct {
	modes      map[string]Mode
	values     map[string]map[string]any
	parameters *ast.Term
	// found are the parameters that guards look at; nil for one that there is not.
	found []ast.Value
}

// find looks up what guards look at.
func (s scope) find(parameters []ast.Ref) scope {
	s.found = make([]ast.Value, len(parameters))
	for i, ref := range parameters {
		if value, err := s.parameters.Value.Find(ref[2:]); err == nil {
			s.found[i] = value
		}
	}
	return s
}

// newScope is what the METADATA say, without what a site says.
func newScope(set *Set, own func(Mode) Mode) scope {
	s := scope{modes: map[string]Mode{}, values: map[string]map[string]any{}}
	for _, policy := range set.policies {
		s.modes[policy.Code] = policy.Mode
		if own != nil {
			s.modes[policy.Code] = own(policy.Mode)
		}
		s.values[policy.Code] = set.defaults[policy.Code]
	}
	return s
}

// with returns the scope with what a site has decided, and everything that is wrong
// with that.
func (s scope) with(set *Set, at string, modes map[string]Mode, parameters map[string]map[string]any) (scope, error) {
	out := scope{modes: maps.Clone(s.modes), values: maps.Clone(s.values)}
	changed := slices.Collect(maps.Keys(out.values))
	if s.parameters != nil {
		changed = nil
	}
	var errs []error
	for _, code := range slices.Sorted(maps.Keys(modes)) {
		if !slices.Contains(Modes(), modes[code]) {
			errs = append(errs, fmt.Errorf("%smodes.%s %q: must be one of %v", at, code, modes[code], Modes()))
		} else if _, known := set.Policy(code); known {
			out.modes[code] = modes[code]
		}
	}
	for _, code := range slices.Sorted(maps.Keys(parameters)) {
		policy, known := set.Policy(code)
		if !known {
			continue
		}
		out.values[code] = maps.Clone(out.values[code])
		maps.Copy(out.values[code], parameters[code])
		if s.parameters != nil {
			changed = append(changed, code)
		}
		if err := policy.CheckParameters(out.values[code]); err != nil {
			errs = append(errs, fmt.Errorf("%sparameters.%s: %w", at, code, err))
		}
	}
	var err error
	out.parameters, err = parameterTerm(s.parameters, out.values, changed)
	return out, errors.Join(append(errs, err)...)
}

// parameterTerm is the parameters as policies see them; those that have not changed are
// shared with the ones before, nil for none.
func parameterTerm(before *ast.Term, values map[string]map[string]any, changed []string) (*ast.Term, error) {
	if before != nil && len(changed) == 0 {
		return before, nil
	}
	object := ast.NewObjectWithCapacity(len(values))
	if before != nil {
		if all, is := before.Value.(ast.Object); is {
			all.Foreach(object.Insert)
		}
	}
	for _, code := range changed {
		value, err := ast.InterfaceToValue(values[code])
		if err != nil {
			return nil, err
		}
		object.Insert(ast.StringTerm(code), ast.NewTerm(value))
	}
	return ast.NewTerm(object), nil
}
