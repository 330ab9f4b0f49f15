package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	resourceapi "k8s.io/api/resource/v1"
)

// part is a set of the parts of the input, a bit for each of parts().
type part uint8

func partsOf(names []string) (mask part) {
	for i, name := range parts() {
		if slices.Contains(names, name) {
			mask |= 1 << i
		}
	}
	return mask
}

// groupKey is what decides which policies apply to a write.
type groupKey struct {
	kind string
	has  part
	// generated tells that the author is a component of Kubernetes: policies about
	// users do not apply.
	generated bool
}

func groupOf(req Request) groupKey {
	return groupKey{req.Kind, partsOf(has(req.Object)), req.GeneratedBy != "" && req.GeneratedBy != User}
}

// has names the parts of the input that are not empty for an object.
func has(object any) (names []string) {
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		return []string{NeedsTaintRule}
	case *resourceapi.ResourceSlice:
		return []string{NeedsSlice}
	case *resourceapi.DeviceClass:
		names = []string{NeedsClass}
		if slices.ContainsFunc(object.Spec.Config, func(c resourceapi.DeviceClassConfiguration) bool { return c.Opaque != nil }) {
			names = append(names, NeedsConfigs)
		}
		return names
	}
	spec, _ := specOf(object)
	if spec == nil {
		return nil
	}
	if len(spec.Devices.Requests) > 0 {
		names = append(names, NeedsRequests)
	}
	for i := range spec.Devices.Requests {
		if tolerates(&spec.Devices.Requests[i]) {
			names = append(names, NeedsTolerations)
			break
		}
	}
	if slices.ContainsFunc(spec.Devices.Config, func(c resourceapi.DeviceClaimConfiguration) bool { return c.Opaque != nil }) {
		names = append(names, NeedsConfigs)
	}
	return names
}

func tolerates(request *resourceapi.DeviceRequest) bool {
	if request.Exactly != nil && len(request.Exactly.Tolerations) > 0 {
		return true
	}
	return slices.ContainsFunc(request.FirstAvailable, func(sub resourceapi.DeviceSubRequest) bool { return len(sub.Tolerations) > 0 })
}

// group is the policies that apply to the same writes, with their queries.
type group struct {
	policies []Metadata
	all      rego.PreparedEvalQuery
	each     []rego.PreparedEvalQuery
	reads    reads
	// pure tells that decisions may be kept: claims come in great numbers and differ
	// little, and nothing that the policies read is different every time.
	pure bool
}

func (g *group) strongest(in scope) Mode {
	strongest := Off
	for _, policy := range g.policies {
		if mode := in.modes[policy.Code]; slices.Index(Modes(), mode) > slices.Index(Modes(), strongest) {
			strongest = mode
		}
	}
	return strongest
}

// newGroups prepares a query for every combination of policies that can apply.
func newGroups(set *Set, all scopes) (map[groupKey]*group, error) {
	groups := map[groupKey]*group{}
	prepared := map[string]*group{}
	lazy := laziness(set)
	for _, kind := range Kinds() {
		for has := range part(1 << len(parts())) {
			for _, generated := range []bool{false, true} {
				key := groupKey{kind, has, generated}
				policies := key.policies(set, all)
				if len(policies) == 0 {
					continue
				}
				name := codes(policies)
				if prepared[name] == nil {
					g, err := newGroup(set, policies, lazy)
					if err != nil {
						return nil, err
					}
					prepared[name] = g
				}
				groups[key] = prepared[name]
			}
		}
	}
	return groups, nil
}

func codes(policies []Metadata) string {
	var all []string
	for _, policy := range policies {
		all = append(all, policy.Code)
	}
	return strings.Join(all, " ")
}

// possible are the parts that an object of a kind can have.
func (k groupKey) possible() part {
	switch k.kind {
	case "DeviceTaintRule":
		return partsOf([]string{NeedsTaintRule})
	case "ResourceSlice":
		return partsOf([]string{NeedsSlice})
	case "DeviceClass":
		return partsOf([]string{NeedsClass, NeedsConfigs})
	default:
		return partsOf([]string{NeedsRequests, NeedsTolerations, NeedsConfigs})
	}
}

func (k groupKey) policies(set *Set, all scopes) (policies []Metadata) {
	if k.has&^k.possible() != 0 {
		return nil
	}
	for _, policy := range set.policies {
		if slices.Contains(policy.Kinds, k.kind) && partsOf(policy.Needs)&k.has != 0 &&
			!(k.generated && policy.About == AboutUser) && all.anywhere(policy.Code) {
			policies = append(policies, policy)
		}
	}
	return policies
}

func newGroup(set *Set, policies []Metadata, lazy map[string]reads) (*group, error) {
	g := &group{policies: policies}
	var rules []*ast.Term
	for _, policy := range policies {
		rule := ast.NewTerm(ast.MustParseRef("data." + policy.Package + ".deny"))
		rules = append(rules, rule)
		one, err := set.prepare(ast.NewBody(ast.NewExpr(ast.ArrayTerm(rule))))
		if err != nil {
			return nil, err
		}
		g.each = append(g.each, one)
		g.reads = g.reads.or(lazy[policy.Package])
	}
	g.pure = !g.reads.now && !g.reads.raw
	all, err := set.prepare(ast.NewBody(ast.NewExpr(ast.ArrayTerm(rules...))))
	g.all = all
	return g, err
}

// reads is what is built only for policies that read it.
type reads struct{ name, now, raw bool }

func (r reads) or(other reads) reads {
	return reads{r.name || other.name, r.now || other.now, r.raw || other.raw}
}

// laziness returns what the modules of each package read, modules of dra.lib counted
// for everybody.
func laziness(set *Set) map[string]reads {
	own := map[string]reads{}
	var library reads
	for _, module := range set.compiler.Modules {
		path := strings.TrimPrefix(module.Package.Path.String(), "data.")
		found := readsOf(module)
		if isLibrary(path) {
			library = library.or(found)
		}
		own[path] = own[path].or(found)
	}
	for _, policy := range set.policies {
		own[policy.Package] = own[policy.Package].or(library)
	}
	return own
}

// readsOf looks for input.<field>; input as a whole may be anything.
func readsOf(module *ast.Module) (r reads) {
	ast.WalkRefs(module, func(ref ast.Ref) bool {
		if !ref[0].Equal(ast.InputRootDocument) {
			return false
		}
		var field ast.Value = ast.Var("")
		if len(ref) > 1 {
			field = ref[1].Value
		}
		name, constant := field.(ast.String)
		r = r.or(reads{!constant || name == "name", !constant || name == "now", !constant || name == "raw"})
		return false
	})
	return r
}

func compareViolations(a, b Violation) int {
	return cmp.Or(slices.Compare(a.Paths, b.Paths), cmp.Compare(a.Message, b.Message))
}

// within tells whether an earlier violation is the same, in all places of this one.
func (v Violation) within(before Violation) bool {
	return v.Code == before.Code && v.Message == before.Message &&
		!slices.ContainsFunc(v.Paths, func(path string) bool { return !slices.Contains(before.Paths, path) })
}
