package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/labels"
)

// Settings are what a site configures about its policies. Codes that no policy has are
// ignored, since policies can be added and removed on their own.
type Settings struct {
	// Disabled switches all policies off.
	Disabled bool
	// Own changes the modes that policies have by themselves, up to the strongest mode in
	// their METADATA; nil leaves them.
	Own func(Mode) Mode
	// Modes replace the modes of the METADATA, by code.
	Modes map[string]Mode
	// Parameters replace single parameters of the METADATA, by code and name.
	Parameters map[string]map[string]any
	// Namespaces are settings of some namespaces. Later ones override earlier ones.
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

// An Override is the settings of some namespaces: those with one of the names, and those
// whose labels match the selector. A namespace whose labels are not known does not match.
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
	// found are the parameters that prefilters read; nil for one that does not exist.
	found []ast.Value
}

// find looks up the parameters that prefilters read.
func (s scope) find(parameters []ast.Ref) scope {
	s.found = make([]ast.Value, len(parameters))
	for i, ref := range parameters {
		if value, err := s.parameters.Value.Find(ref[2:]); err == nil {
			s.found[i] = value
		}
	}
	return s
}

// newScope returns the settings of the METADATA, without those of a site.
func newScope(set *Set, own func(Mode) Mode) scope {
	s := scope{modes: map[string]Mode{}, values: map[string]map[string]any{}}
	for _, policy := range set.policies {
		s.modes[policy.Code] = policy.Mode
		if own != nil {
			s.modes[policy.Code] = policy.raised(own)
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
		if err := policy.checkParameters(out.values[code]); err != nil {
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

// scopes are those of the cluster and of namespaces.
type scopes struct {
	set     *Set
	cluster scope
	// namespaces are by name, where names alone decide.
	namespaces map[string]scope
	// overrides are all, if labels decide too. matched are then the scopes of those that
	// apply together, by their places; there are few such combinations.
	overrides []Override
	matched   *sync.Map
	guards    []ast.Ref
}

func newScopes(set *Set, settings Settings) (scopes, error) {
	cluster, err := newScope(set, settings.Own).with(set, "", settings.Modes, settings.Parameters)
	all := scopes{set: set, cluster: cluster, namespaces: map[string]scope{}}
	errs := []error{err}
	if slices.ContainsFunc(settings.Namespaces, func(o Override) bool { return o.Selector != nil }) {
		all.overrides, all.matched = settings.Namespaces, &sync.Map{}
	}
	for i, override := range settings.Namespaces {
		at := fmt.Sprintf("namespaces[%d].", i)
		if override.Selector != nil {
			_, err := cluster.with(set, at, override.Modes, override.Parameters)
			errs = append(errs, err)
		}
		for _, name := range override.Names {
			s, err := all.named(name).with(set, at, override.Modes, override.Parameters)
			all.namespaces[name] = s
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// find looks up the parameters that prefilters read.
func (s *scopes) find(parameters []ast.Ref) {
	s.guards = parameters
	s.cluster = s.cluster.find(parameters)
	for name, one := range s.namespaces {
		s.namespaces[name] = one.find(parameters)
	}
}

// named is the scope of a namespace of which the name alone is known.
func (s scopes) named(namespace string) scope {
	if one, found := s.namespaces[namespace]; found {
		return one
	}
	return s.cluster
}

// of is the scope of a write.
func (s scopes) of(req Request) scope {
	if s.overrides == nil || req.Namespace == "" {
		return s.named(req.Namespace)
	}
	var known labels.Set
	if req.ClusterData != nil {
		known = req.ClusterData.NamespaceLabels(req.Namespace)
	}
	apply := make([]byte, len(s.overrides))
	for i, override := range s.overrides {
		if slices.Contains(override.Names, req.Namespace) || override.Selector != nil && known != nil && override.Selector.Matches(known) {
			apply[i] = 1
		}
	}
	if one, found := s.matched.Load(string(apply)); found {
		if one, is := one.(scope); is {
			return one
		}
	}
	one := s.cluster
	for i, override := range s.overrides {
		if apply[i] == 1 {
			// Each was checked by itself when the engine was made.
			one, _ = one.with(s.set, "", override.Modes, override.Parameters)
		}
	}
	one = one.find(s.guards)
	s.matched.Store(string(apply), one)
	return one
}

// anywhere reports whether a policy is in force in some namespace.
func (s scopes) anywhere(code string) bool {
	if s.cluster.modes[code] != Off {
		return true
	}
	for _, one := range s.namespaces {
		if one.modes[code] != Off {
			return true
		}
	}
	return slices.ContainsFunc(s.overrides, func(o Override) bool { return o.Modes[code] != Off && o.Modes[code] != "" })
}
