package policy

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
)

// summary is what the requests and tolerations have in common, so that a policy that
// looks for something rare sees at once that it is not there.
type summary struct {
	wildcard, endless, ineffective, unknownKey       bool
	adminAccess, all, alternatives, constantSelector bool
	openClass                                        bool
	longest                                          int64
	longestList                                      int
}

func (d *devices) summarise(facts Facts) {
	s := &d.summary
	for i := range d.demands {
		one := &d.demands[i]
		s.adminAccess = s.adminAccess || one.adminAccess
		s.all = s.all || one.mode == resourceapi.DeviceAllocationModeAll
		s.alternatives = s.alternatives || one.alternative > 0
		s.longestList = max(s.longestList, len(one.tolerations))
		for _, selector := range one.selectors {
			s.constantSelector = s.constantSelector || constant(selector)
		}
		s.openClass = s.openClass || len(one.selectors) == 0 && open(d.class(one.class))
	}
	for i := range d.tolerations {
		t := &d.tolerations[i]
		evicts := t.evicts()
		s.wildcard = s.wildcard || t.key == ""
		s.endless = s.endless || evicts && !t.limited
		if evicts && t.limited {
			s.longest = max(s.longest, t.seconds)
		}
		s.ineffective = s.ineffective || t.repeated || t.effect == string(resourceapi.DeviceTaintEffectNone) || t.limited && (!evicts || t.seconds < 0)
		if facts == nil {
			continue
		}
		if is, sure := facts.TaintKey(t.key); sure {
			t.known = truthOf(is)
			s.unknownKey = s.unknownKey || !is
		}
	}
}

// open tells whether a known class takes any device.
func open(class *resourceapi.DeviceClass) bool {
	return class != nil && !slices.ContainsFunc(class.Spec.Selectors, func(s resourceapi.DeviceSelector) bool {
		return s.CEL == nil || strings.TrimSpace(s.CEL.Expression) != "true"
	})
}

func constant(selector resourceapi.DeviceSelector) bool {
	if selector.CEL == nil {
		return false
	}
	expression := strings.TrimSpace(selector.CEL.Expression)
	return expression == "true" || expression == "false"
}

// tolerates tells whether has.keys has a key: one of a toleration, or its domain with /*.
func (d *devices) tolerates(key string) bool {
	domain, whole := strings.CutSuffix(key, "/*")
	for i := range d.tolerations {
		own := d.tolerations[i].key
		if own == key {
			return true
		}
		if whole && len(own) > len(domain) && own[len(domain)] == '/' && own[:len(domain)] == domain && !strings.Contains(domain, "/") {
			return true
		}
	}
	return false
}

// domainKey stands for all keys of the domain of a key; empty for a key without a domain.
func domainKey(key string) string {
	domain, _, prefixed := strings.Cut(key, "/")
	if !prefixed {
		return ""
	}
	return domain + "/*"
}

// keys is has.keys.
func (d *devices) keys() *ast.Term {
	keys := ast.NewObjectWithCapacity(2 * len(d.tolerations))
	for i := range d.tolerations {
		key := d.tolerations[i].key
		keys.Insert(text(key), truth(true))
		if domain := domainKey(key); domain != "" {
			keys.Insert(text(domain), truth(true))
		}
	}
	return ast.NewTerm(keys)
}

// has is the summary as the policies see it; without its keys for policies that do not
// read them.
func (d *devices) has(keys bool) *ast.Term {
	object := ast.NewObjectWithCapacity(len(hasFields) + 1)
	for i := range hasFields {
		object.Insert(hasFields[i].key, hasFields[i].get(d, 0).term())
	}
	if keys {
		object.Insert(hasKeysKey, d.keys())
	}
	return ast.NewTerm(object)
}
