package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// reference asks every policy of a group by itself, with the whole input.
func (g *group) reference(ctx context.Context, s *subject) Decision {
	d := Decision{Evaluated: true}
	input := s.input(everything)
	for _, one := range g.policies {
		results, err := one.query.run(ctx, input)
		if err != nil {
			d.add(ctx, one.Metadata, s.in, nil, err)
			continue
		}
		d.add(ctx, one.Metadata, s.in, results[0], nil)
	}
	return d
}

// sameAsReference compares with the reference what a write is told.
func sameAsReference(t *testing.T, e *Engine, req Request) (said int) {
	t.Helper()
	group := e.groups[groupOf(req)]
	if group == nil {
		return 0
	}
	s := subjectOf(req, e.scopes.named(req.Namespace))
	got, want := group.evaluate(t.Context(), s), group.reference(t.Context(), s)
	failures := func(d Decision) (all []string) {
		for _, f := range d.Failures {
			all = append(all, fmt.Sprint(f.Code, f.Mode, f.Err))
		}
		return all
	}
	if !reflect.DeepEqual(got.Violations, want.Violations) || !reflect.DeepEqual(failures(got), failures(want)) {
		t.Errorf("%+v\ngot  %+v %v\nwant %+v %v", req.Object, got.Violations, failures(got), want.Violations, failures(want))
	}
	return len(want.Violations) + len(want.Failures)
}

// TestPrefiltersOfTheLibrary: the library with and without its guards says the same of
// generated writes, with parameters and modes that differ by namespace.
func TestPrefiltersOfTheLibrary(t *testing.T) {
	set, err := Parse(t.Context(), Library())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Mode{}
	for _, p := range set.Policies() {
		all[p.Code] = Warn
	}
	e, err := NewEngine(set, Settings{Timeout: time.Minute, Modes: all, Namespaces: []Override{
		{Names: []string{"team-a"}, Modes: map[string]Mode{"DRA-TOL-001": Off, "DRA-TOL-004": Deny}, Parameters: map[string]map[string]any{
			"DRA-TOL-002": {"keys": []any{"a.example/x", "b.example/*"}}, "DRA-TOL-003": {"allowed": []any{"a.example/*"}},
			"DRA-TOL-005": {"maxSeconds": 10}, "DRA-TOL-007": {"max": 2}, "DRA-CLAIM-003": {"classes": map[string]any{"gpu": 1}},
			"DRA-CLAIM-006": {"namespaceLabels": map[string]any{"queued": "yes"}},
		}},
		{Names: []string{"team-b"}, Parameters: map[string]map[string]any{"DRA-TOL-001": {"allowed": true}, "DRA-TOL-002": {"keys": []any{}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	random, said := rand.New(rand.NewPCG(1, 2)), 0
	for range 3000 {
		said += sameAsReference(t, e, anyWrite(random))
	}
	if said < 3000 {
		t.Errorf("only %d things were said: the writes show nothing", said)
	}
}

// TestPrefiltersOfAnyPolicy does the same with generated policies: guards are made of any
// mixture of conditions, among them some that fail.
func TestPrefiltersOfAnyPolicy(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	said, guarded := 0, 0
	for range 6 {
		e := anyEngine(t, random, 40)
		for _, group := range e.groups {
			for _, one := range group.policies {
				guarded += len(one.prefilter.(ruleFilters)[0].always) + len(one.prefilter.(ruleFilters)[0].loops)
			}
		}
		for range 150 {
			said += sameAsReference(t, e, anyWrite(random))
		}
	}
	if said < 1000 || guarded < 1000 {
		t.Errorf("%d things were said, with %d parts of guards: that shows nothing", said, guarded)
	}
}

// anyEngine has so many generated policies.
func anyEngine(t *testing.T, random *rand.Rand, policies int) *Engine {
	t.Helper()
	files := fstest.MapFS{}
	for i := range policies {
		files[fmt.Sprintf("p%d.rego", i)] = &fstest.MapFile{Data: []byte(anyPolicy(random, i))}
	}
	set, err := Parse(t.Context(), Collection{Name: "any", Files: files})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(set, Settings{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const anyHeader = `# METADATA
# title: Any
# description: Any.
# custom:
#   code: ANY-%[1]d
#   severity: low
#   mode: warn
#   about: object
#   kinds: [ResourceClaim, ResourceClaimTemplate, DeviceTaintRule]
#   needs: [requests, tolerations, taintRule]
#   parameters:
#     type: object
#     properties:
#       list: {type: array, items: {type: string}, default: ["a.example/x", "Exists", "gpu"]}
#       limit: {type: integer, default: 3}
package dra.custom.any%[1]d

helper if {
	%[2]s
}

helper if {
	some key in input.parameters["ANY-%[1]d"].list
	key == input.namespace
}

`

// anyPolicy is made of conditions that are drawn.
func anyPolicy(random *rand.Rand, i int) string {
	conditions := []string{
		`input.user.name == "joe"`, "input.impact.claims > 1", "not input.impact.namespaces > 1", "input.impact.devices > 5", "%p.limit >= 3",
		`input.user.name == "jane"`, `input.user.name != "jane"`, `input.operation == "UPDATE"`, `not input.taintRule.selector.empty`, "input.taintRule.selector.empty",
		`input.taintRule.effect in {"NoExecute", "NoSchedule"}`, `not input.taintRule.old.key == input.taintRule.key`, "input.impact.pods > 2",
		`input.namespace in %p.list`, `not input.namespace in %p.list`, "helper", "not helper", `input.taintRule.key == "b.example/y"`, `input.namespaceLabels.queued == "yes"`,
		`count(input.tolerations) > 1`, `to_number(input.user.name) > 1`, "%p.limit > input.impact.pods", "input.dryRun == false", "some d\n\td = input.impact.pods\n\td <= 0",
		`input.claim.requests[0].class == "gpu"`, `input.tolerations[_].key == "b.example/y"`, "input.dryRun",
	}
	loops := []struct {
		over          string
		values, about []string
	}{
		{"input.tolerations", []string{"x", "x.key", "x.paths", "[x.domainKey, x.effect]", "count(input.tolerations)", "[y.key | some y in input.tolerations]", "[i | some i, y in input.tolerations; y.wildcard]",
			"[y.paths | some y in input.tolerations; y.key == x.key]", "object.keys(x)", `input["tolerations"][0].value`, "x[field]", "input[field]"}, []string{`x.key == "a.example/x"`, "x.wildcard", "not x.wildcard", `x.key != ""`, "x.seconds > 3", "x.seconds == null", "x.ends", "not x.ends", "x.noExecute", `x.effect == ""`,
			"x.known == false", "x.key in %p.list", "not x.operator in %p.list", `to_number(x.value) > 1`, "count(x.paths) > 1", `startswith(x.key, "a")`, "not x.repeated", `x.domainKey == "b.example/*"`}},
		{"input.claim.requests", []string{"x", "x.path", "[x.name, x.selectors]", "[y.mode | some y in input.claim.requests]", "input.claim", "count(input.claim.requests)"}, []string{`x.class == "gpu"`, `x.mode == "All"`, "x.count > 1", "not x.adminAccess", "x.alternative > 0", "count(x.selectors) == 0", "x.class in %p.list", `x.name != "r0"`, "x.constantSelector", "not x.constantSelector"}},
		{"input.tolerationLists", []string{"x"}, []string{"x.length > 1", "x.length <= %p.limit"}},
		{"input.classes", []string{"x"}, []string{"x.known", "not x.known", "count(x.selectors) == 0", "x.selectsAll", "not x.selectsAll"}},
		{"%p.list", []string{"x"}, []string{`x == "gpu"`, "x != input.namespace", `x != "Exists"`}},
	}
	pick := func(from []string, most int) (picked []string) {
		for range random.IntN(most + 1) {
			picked = append(picked, from[random.IntN(len(from))])
		}
		return picked
	}
	body, value := pick(conditions, 2), `"none"`
	if random.IntN(4) > 0 {
		loop := loops[random.IntN(len(loops))]
		value = loop.values[random.IntN(len(loop.values))]
		if strings.HasSuffix(value, "[field]") {
			body = append(body, `some field in ["key", "paths", "tolerations"]`)
		}
		if random.IntN(5) == 0 {
			body, value = append(body, "some index, x in "+loop.over), "[index, "+value+"]"
		} else {
			body = append(body, "some x in "+loop.over)
		}
		body = append(append(body, pick(loop.about, 3)...), pick(conditions, 1)...)
	}
	var once []string
	for _, one := range body {
		if !strings.HasPrefix(one, "some d") || !strings.Contains(strings.Join(once, ""), "some d") {
			once = append(once, one)
		}
	}
	rule := fmt.Sprintf(anyHeader, i, append(conditions[:15:15], `to_number(input.user.name) > 1`)[random.IntN(16)]) + "deny contains {\"paths\": [], \"message\": sprintf(\"%v\", [" + value + "])} if {\n\t" +
		strings.Join(append(once, "true"), "\n\t") + "\n}\n"
	return strings.ReplaceAll(rule, "%p", fmt.Sprintf(`input.parameters["ANY-%d"]`, i))
}

// anyWrite is a write of a claim, template or taint rule.
func anyWrite(random *rand.Rand) Request {
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	req := Request{Kind: "ResourceClaim", Name: "some", Namespace: one("team-a", "team-b", "gpu"), User: one("jane", "joe", "17"), Groups: []string{one("x", "y")},
		DryRun: random.IntN(2) == 0, Now: time.Unix(1e9, 0), ClusterData: anyFacts{known: one("a.example/x", "b.example/y"), sure: random.IntN(2) == 0}}
	if random.IntN(2) == 0 {
		req.ClusterView = anyWorld{}
	}
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: anyRequests(random, one)}}
	switch random.IntN(3) {
	case 0:
		claim := &resourceapi.ResourceClaim{Spec: spec}
		req.Object = claim
		if random.IntN(2) == 0 {
			req.Old = claim
		}
	case 1:
		req.Kind, req.Object = "ResourceClaimTemplate", &resourceapi.ResourceClaimTemplate{Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}
	default:
		req.Kind, req.Namespace, req.Object = "DeviceTaintRule", "", anyRule(random, one)
		if random.IntN(2) == 0 {
			req.Old = anyRule(random, one)
		}
		if random.IntN(2) == 0 {
			req.Impact = &guard.Impact{Counts: guard.Counts{Devices: random.IntN(5), DriverDevices: 5, Pods: random.IntN(5), Namespaces: random.IntN(30)}}
		}
	}
	return req
}

func anyRule(random *rand.Rand, one func(...string) string) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{Spec: resourceapi.DeviceTaintRuleSpec{Taint: resourceapi.DeviceTaint{
		Key: one("a.example/x", "nvidia.com/x"), Effect: resourceapi.DeviceTaintEffect(one("NoExecute", "NoSchedule", "None"))}}}
	if random.IntN(2) == 0 {
		rule.Spec.Taint.TimeAdded = &metav1.Time{Time: time.Unix(1e9-int64(random.IntN(200)), 0)}
	}
	pool := one("p", "q")
	rule.Spec.DeviceSelector = []*resourceapi.DeviceTaintSelector{nil, {}, {Pool: &pool}, {Driver: &pool}}[random.IntN(4)]
	return rule
}

func anyRequests(random *rand.Rand, one func(...string) string) (all []resourceapi.DeviceRequest) {
	tolerations := func() (all []resourceapi.DeviceToleration) {
		for range random.IntN(4) * random.IntN(2) {
			t := resourceapi.DeviceToleration{Key: one("", "a.example/x", "b.example/y", "b.example/y", "b.example", "b.example/y/z"), Value: one("", "1", "2", "v"),
				Operator: resourceapi.DeviceTolerationOperator(one("", "Exists", "Equal")), Effect: resourceapi.DeviceTaintEffect(one("", "NoExecute", "NoSchedule", "NoSchedule", "None"))}
			if seconds := int64(random.IntN(100) - 5); random.IntN(2) == 0 {
				t.TolerationSeconds = &seconds
			}
			all = append(all, t)
		}
		return all
	}
	selectors := func() (all []resourceapi.DeviceSelector) {
		for range random.IntN(3) * random.IntN(2) {
			all = append(all, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: one("true", " false", `device.driver == "gpu"`)}})
		}
		return all
	}
	mode := func() resourceapi.DeviceAllocationMode {
		return resourceapi.DeviceAllocationMode(one("", "ExactCount", "ExactCount", "All"))
	}
	for i := range random.IntN(4) {
		request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", i)}
		if random.IntN(3) > 0 {
			admin := random.IntN(4) == 0
			request.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: one("gpu", "open", "missing"), AllocationMode: mode(), Count: int64(random.IntN(3)), AdminAccess: &admin, Tolerations: tolerations(), Selectors: selectors()}
		} else {
			for j := range 1 + random.IntN(2) {
				request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{Name: fmt.Sprintf("s%d", j), DeviceClassName: one("gpu", "open"), AllocationMode: mode(), Tolerations: tolerations(), Selectors: selectors()})
			}
		}
		all = append(all, request)
	}
	return all
}

type anyFacts struct {
	known string
	sure  bool
}

func (anyFacts) NamespaceLabels(name string) map[string]string {
	return map[string]string{"queued": "yes", "name": name}
}
func (f anyFacts) TaintKey(key string) (bool, bool) { return key == f.known, f.sure }

// anyWorld has a class with a selector and one that is open.
type anyWorld struct{ validate.ClusterView }

func (anyWorld) Class(name string) *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels.Set{"a": "b"}}}
	switch name {
	case "gpu":
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "device.driver == \"gpu\""}}}
	case "open":
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: "true "}}}
	default:
		return nil
	}
	return class
}
