package policy

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"k8s.io/apimachinery/pkg/labels"
)

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

// find looks up what guards look at.
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
	if req.Facts != nil {
		known = req.Facts.NamespaceLabels(req.Namespace)
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
			// Each fits by itself, which is all that can be asked of them beforehand.
			one, _ = one.with(s.set, "", override.Modes, override.Parameters)
		}
	}
	one = one.find(s.guards)
	s.matched.Store(string(apply), one)
	return one
}

// anywhere tells whether a policy is in force in some namespace.
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
