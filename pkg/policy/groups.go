package policy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/text/natural"
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
	// generated is set if the author is a component of Kubernetes: policies about
	// users do not apply.
	generated bool
}

func groupOf(req Request) groupKey {
	names := has(req.Object)
	if req.Impact != nil {
		names = append(names, NeedsImpact)
	}
	return groupKey{req.Kind, partsOf(names), req.GeneratedBy != "" && req.GeneratedBy != User}
}

// has names the parts of the input that are not empty for an object.
func has(object any) (names []string) {
	switch object := object.(type) {
	case *resourceapi.DeviceTaintRule:
		return []string{needsTaintRule}
	case *resourceapi.ResourceSlice:
		return []string{needsSlice}
	case *resourceapi.DeviceClass:
		names = []string{needsClass}
		if slices.ContainsFunc(object.Spec.Config, func(c resourceapi.DeviceClassConfiguration) bool { return c.Opaque != nil }) {
			names = append(names, needsConfigs)
		}
		return names
	}
	spec, _ := specOf(object)
	if spec == nil {
		return nil
	}
	if len(spec.Devices.Requests) > 0 {
		names = append(names, needsRequests)
	}
	for i := range spec.Devices.Requests {
		if tolerates(&spec.Devices.Requests[i]) {
			names = append(names, needsTolerations)
			break
		}
	}
	if slices.ContainsFunc(spec.Devices.Config, func(c resourceapi.DeviceClaimConfiguration) bool { return c.Opaque != nil }) {
		names = append(names, needsConfigs)
	}
	return names
}

func tolerates(request *resourceapi.DeviceRequest) bool {
	if request.Exactly != nil && len(request.Exactly.Tolerations) > 0 {
		return true
	}
	return slices.ContainsFunc(request.FirstAvailable, func(sub resourceapi.DeviceSubRequest) bool { return len(sub.Tolerations) > 0 })
}

// group is the policies that apply to the same writes.
type group struct {
	policies []*preparedPolicy
	all      *query
	// some are the queries for a part of the policies, prepared when they are needed.
	some *queryCache
	// pure is set if decisions can be kept: nothing that the policies read differs each
	// time.
	pure bool
}

// preparedPolicy is a policy of a group with its own query.
type preparedPolicy struct {
	Metadata
	query     *query
	prefilter prefilter
}

func strongest(prepared []*preparedPolicy, in scope) Mode {
	strongest := Off
	for i := range prepared {
		if mode := in.modes[prepared[i].Code]; rank(mode) > rank(strongest) {
			strongest = mode
		}
	}
	return strongest
}

// newGroups prepares a query for every combination of policies that can apply.
func newGroups(set *Set, all *scopes, only string) (map[groupKey]*group, error) {
	groups := map[groupKey]*group{}
	groupsByCodes := map[string]*group{}
	policies, err := preparePolicies(set, all, only)
	if err != nil {
		return nil, err
	}
	for _, kind := range allKinds() {
		for has := range part(1 << len(parts())) {
			for _, generated := range []bool{false, true} {
				key := groupKey{kind, has, generated}
				applying := key.policies(policies)
				if len(applying) == 0 {
					continue
				}
				name := codes(applying)
				if groupsByCodes[name] == nil {
					g, err := newGroup(set, applying)
					if err != nil {
						return nil, err
					}
					groupsByCodes[name] = g
				}
				groups[key] = groupsByCodes[name]
			}
		}
	}
	return groups, nil
}

func codes(policies []*preparedPolicy) string {
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
		return partsOf([]string{needsTaintRule, NeedsImpact})
	case v1alpha1.DeviceDrainKind, v1alpha1.DeviceReactionKind, v1alpha1.DeviceRollKind:
		return partsOf([]string{NeedsImpact})
	case "ResourceSlice":
		return partsOf([]string{needsSlice})
	case "DeviceClass":
		return partsOf([]string{needsClass, needsConfigs})
	default:
		return partsOf([]string{needsRequests, needsTolerations, needsConfigs})
	}
}

func (k groupKey) policies(prepared []*preparedPolicy) (policies []*preparedPolicy) {
	if k.has&^k.possible() != 0 {
		return nil
	}
	for _, policy := range prepared {
		if slices.Contains(policy.Kinds, k.kind) && partsOf(policy.Needs)&k.has != 0 && !(k.generated && policy.About == aboutUser) {
			policies = append(policies, policy)
		}
	}
	return policies
}

// preparePolicies prepares the policies that are in force anywhere, and looks up what their
// prefilters read of the scopes.
func preparePolicies(set *Set, all *scopes, only string) ([]*preparedPolicy, error) {
	var prepared []*preparedPolicy
	var parameters []ast.Ref
	readers, filters := newReaders(set.compiler), filterBuilder{set.compiler, &parameters}
	for _, policy := range set.policies {
		if !all.anywhere(policy.Code) || only != "" && !slices.Contains(policy.Needs, only) {
			continue
		}
		one, err := set.newQuery(readers.policy(policy.Package), policy)
		if err != nil {
			return nil, err
		}
		prepared = append(prepared, &preparedPolicy{policy, one, filters.policy(policy.Package)})
	}
	all.find(parameters)
	return prepared, nil
}

func newGroup(set *Set, policies []*preparedPolicy) (*group, error) {
	g := &group{policies: policies}
	all, err := set.newQueryOf(policies)
	if err != nil {
		return nil, err
	}
	g.all = all
	g.some = &queryCache{set: set, known: map[string]*query{}}
	g.pure = !all.any(fieldNamed("now") | fieldNamed("raw"))
	return g, nil
}

func compareViolations(a, b Violation) int {
	return cmp.Or(slices.CompareFunc(a.Paths, b.Paths, natural.Compare), cmp.Compare(a.Message, b.Message))
}

// violationPlaces are the places of violations, by policy and message.
type violationPlaces map[[2]string]map[string]bool

func newPlaces(violations []Violation) violationPlaces {
	all := violationPlaces{}
	for i := range violations {
		v := &violations[i]
		id := [2]string{v.Code, v.Message}
		if all[id] == nil {
			all[id] = make(map[string]bool, len(v.Paths))
		}
		for _, path := range v.Paths {
			all[id][path] = true
		}
	}
	return all
}

// have reports whether there is the same violation at all places of v.
func (p violationPlaces) have(v *Violation) bool {
	places, found := p[[2]string{v.Code, v.Message}]
	return found && !slices.ContainsFunc(v.Paths, func(path string) bool { return !places[path] })
}

// A query evaluates some policies together.
type query struct {
	policies []Metadata
	prepared rego.PreparedEvalQuery
	// fields are those of the input that the policies read.
	fields
}

// newQuery prepares a query of policies that read no more than reads.
func (s *Set) newQuery(reads fields, policies ...Metadata) (*query, error) {
	var rules []*ast.Term
	for _, policy := range policies {
		rules = append(rules, ast.NewTerm(ast.MustParseRef("data."+policy.Package+".deny")))
	}
	prepared, err := rego.New(rego.Compiler(s.compiler), rego.StrictBuiltinErrors(true), rego.GenerateJSON(keepTerm),
		rego.ParsedQuery(ast.NewBody(ast.NewExpr(ast.ArrayTerm(rules...))))).PrepareForEval(context.Background())
	return &query{policies, prepared, reads}, err
}

// keepTerm leaves the result as it is: it is decoded into violations.
func keepTerm(t *ast.Term, _ *rego.EvalContext) (any, error) { return t.Value, nil }

// newQueryOf prepares a query of policies that have one each.
func (s *Set) newQueryOf(selected []*preparedPolicy) (*query, error) {
	var reads fields
	var policies []Metadata
	for _, one := range selected {
		reads |= one.query.fields
		policies = append(policies, one.Metadata)
	}
	return s.newQuery(reads, policies...)
}

// run returns what each policy of the query reports.
func (q *query) run(ctx context.Context, input ast.Value, options ...rego.EvalOption) ([]ast.Value, error) {
	// Without a cancel of its own, OPA starts a goroutine for each evaluation.
	cancel := topdown.NewCancel()
	defer context.AfterFunc(ctx, cancel.Cancel)()
	results, err := q.prepared.Eval(ctx, append(options, rego.EvalParsedInput(input),
		rego.EvalExternalCancel(cancel), rego.EvalMetrics(metrics.NoOp()))...)
	if err != nil {
		return nil, err
	}
	if len(results) != 1 || len(results[0].Expressions) != 1 {
		return nil, errNoResults
	}
	list, is := results[0].Expressions[0].Value.(*ast.Array)
	if !is || list.Len() != len(q.policies) {
		return nil, errNoResults
	}
	reported := make([]ast.Value, list.Len())
	for i := range reported {
		reported[i] = list.Elem(i).Value
	}
	return reported, nil
}

var errNoResults = errors.New("the query does not have one result for each policy")

// maxQueries is the number of queries for some of its policies that a group keeps. Beyond
// it, all policies of the group are evaluated.
const maxQueries = 256

// queryCache has the queries for some of the policies of a group.
type queryCache struct {
	set   *Set
	mutex sync.RWMutex
	known map[string]*query
}

// of returns the query for some policies; nil if there are too many already.
func (q *queryCache) of(selected []*preparedPolicy, which string) *query {
	q.mutex.RLock()
	one := q.known[which]
	full := len(q.known) >= maxQueries
	q.mutex.RUnlock()
	if one != nil || full {
		return one
	}
	one, err := q.set.newQueryOf(selected)
	if err != nil {
		return nil
	}
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.known[which] = one
	return one
}
