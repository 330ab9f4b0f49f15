package policy

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	resourceapi "k8s.io/api/resource/v1"
)

var hasKeys = keysOf("wildcard", "endless", "longest", "ineffective", "unknownKey", "longestList", "adminAccess", "all", "alternatives", "constantSelector", "keys")

// summary is what the requests and tolerations have in common, so that a policy that
// looks for something rare sees at once that it is not there.
type summary struct {
	adminAccess, all, alternatives, constantSelector bool
	longestList                                      int
}

func (s *summary) add(alternative int, from demand) {
	s.adminAccess = s.adminAccess || from.adminAccess != nil && *from.adminAccess
	s.all = s.all || from.mode == resourceapi.DeviceAllocationModeAll
	s.alternatives = s.alternatives || alternative > 0
	s.longestList = max(s.longestList, len(from.tolerations))
	for _, selector := range from.selectors {
		if selector.CEL == nil {
			continue
		}
		expression := strings.TrimSpace(selector.CEL.Expression)
		s.constantSelector = s.constantSelector || expression == "true" || expression == "false"
	}
}

// has is the summary as the policies see it.
func (d *devices) has() *ast.Term {
	var wildcard, endless, ineffective, unknown bool
	longest := int64(0)
	keys := ast.NewObjectWithCapacity(2 * len(d.tolerations))
	for _, t := range d.tolerations {
		evicts := t.effect == "" || t.effect == string(resourceapi.DeviceTaintEffectNoExecute)
		wildcard = wildcard || t.key == ""
		endless = endless || evicts && !t.limited
		if evicts && t.limited {
			longest = max(longest, t.seconds)
		}
		ineffective = ineffective || t.repeated || t.effect == string(resourceapi.DeviceTaintEffectNone) || t.limited && (!evicts || t.seconds < 0)
		if d.facts != nil && !unknown {
			is, sure := d.facts.TaintKey(t.key)
			unknown = sure && !is
		}
		keys.Insert(text(t.key), truth(true))
		if domain, _, prefixed := strings.Cut(t.key, "/"); prefixed {
			keys.Insert(text(domain+"/*"), truth(true))
		}
	}
	s := d.summary
	return hasKeys.object(truth(wildcard), truth(endless), whole(longest), truth(ineffective), truth(unknown), ast.InternedTerm(s.longestList),
		truth(s.adminAccess), truth(s.all), truth(s.alternatives), truth(s.constantSelector), ast.NewTerm(keys))
}
