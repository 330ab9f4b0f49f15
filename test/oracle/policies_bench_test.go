package oracle_test

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celapi "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/dra-steward/dra-steward/pkg/policy"
)

// BenchmarkPolicies decides on a claim with eight requests of four tolerations in one run:
// by the policy DRA-TOL-001 and by the whole library, without kept decisions; by the same
// policy as a ValidatingAdmissionPolicy, in the code of the API server that evaluates it
// once it is matched; as Gatekeeper does, by a query for each constraint on the claim as
// JSON; and in plain Go.
//
//	go test . -run '^$' -bench Policies -benchtime 500x -benchmem
func BenchmarkPolicies(b *testing.B) {
	set, err := policy.Parse(b.Context(), policy.Library())
	if err != nil {
		b.Fatal(err)
	}
	one := policy.Settings{CacheBytes: -1, Timeout: time.Minute, Modes: map[string]policy.Mode{}}
	for _, p := range set.Policies() {
		if p.Code != "DRA-TOL-001" {
			one.Modes[p.Code] = policy.Off
		}
	}
	b.Run("a rule that is only true", benchmarkBare)
	for _, distinct := range []bool{false, true} {
		for _, wild := range []bool{false, true} {
			claim := toleratingClaim(distinct, wild)
			name := map[bool]string{false: "4 distinct", true: "32 distinct"}[distinct] + map[bool]string{false: "", true: ", denied"}[wild] + "/"
			engines := map[string]policy.Settings{"library": {CacheBytes: -1, Timeout: time.Minute}, "one policy": one, "library, known": {}}
			for _, what := range []string{"library", "library, known", "one policy"} {
				b.Run(name+what, func(b *testing.B) { benchmarkEngine(b, set, engines[what], claim, wild) })
			}
			for _, schemaless := range []bool{false, true} {
				b.Run(fmt.Sprintf("%sValidatingAdmissionPolicy schemaless=%t", name, schemaless), func(b *testing.B) { benchmarkValidator(b, claim, wild, schemaless) })
			}
			for _, constraints := range []int{1, 23} {
				b.Run(fmt.Sprintf("%sgatekeeper's way constraints=%d", name, constraints), func(b *testing.B) { benchmarkConstraints(b, claim, wild, constraints) })
			}
			b.Run(name+"plain Go", func(b *testing.B) {
				b.ReportAllocs()
				defer reportCPU(b, cpuTime(b))
				for b.Loop() {
					if wildcardIn(claim) != wild {
						b.Fatal("another verdict")
					}
				}
			})
		}
	}
}

// cpuTime returns what the process has used, which on a busy machine says more than the
// clock.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func reportCPU(b *testing.B, begin time.Duration) {
	b.ReportMetric(float64((cpuTime(b)-begin).Nanoseconds())/float64(b.N)/1000, "cpu-µs/op")
}

func benchmarkEngine(b *testing.B, set *policy.Set, settings policy.Settings, claim *resourceapi.ResourceClaim, wild bool) {
	e, err := policy.NewEngine(set, settings)
	if err != nil {
		b.Fatal(err)
	}
	req := policy.Request{Kind: "ResourceClaim", Name: claim.Name, Namespace: claim.Namespace, User: "jane", Object: claim}
	b.ReportAllocs()
	defer reportCPU(b, cpuTime(b))
	for b.Loop() {
		d := e.Evaluate(b.Context(), req)
		if denied := len(d.Violations) > 0; len(d.Failures) > 0 || denied != wild {
			b.Fatalf("%+v", d)
		}
	}
}

const noWildcard = `object.spec.devices.requests.all(r,
	(!has(r.exactly) || !has(r.exactly.tolerations) || r.exactly.tolerations.all(t, has(t.key) && t.key != '')) &&
	(!has(r.firstAvailable) || r.firstAvailable.all(s, !has(s.tolerations) || s.tolerations.all(t, has(t.key) && t.key != ''))))`

func benchmarkValidator(b *testing.B, claim *resourceapi.ResourceClaim, wild, schemaless bool) {
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		b.Fatal(err)
	}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	compile := func(expressions ...cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	}
	fail := admissionv1.Fail
	validator := validating.NewValidator(compile(&validating.ValidationCondition{Expression: noWildcard, Message: "tolerates every taint"}), nil,
		compile(), compile(nil), &fail, nil)
	kind, resource := resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"), resourceapi.SchemeGroupVersion.WithResource("resourceclaims")
	b.ReportAllocs()
	defer reportCPU(b, cpuTime(b))
	for b.Loop() {
		attributes := admission.NewAttributesRecord(claim, nil, kind, claim.Namespace, claim.Name, resource, "", admission.Create, nil, false, &user.DefaultInfo{Name: "jane"})
		versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(claim)}
		//lint:ignore SA1019 the API server sets it, too
		versioned.VersionedObject.UseSchemalessTypeRef = schemaless
		result := validator.Validate(b.Context(), resource, versioned, nil, nil, celapi.RuntimeCELCostBudget, nil)
		if len(result.Decisions) != 1 || (result.Decisions[0].Action == validating.ActionDeny) != wild || wild && result.Decisions[0].Message != "tolerates every taint" {
			b.Fatalf("%+v", result)
		}
	}
}

func benchmarkConstraints(b *testing.B, claim *resourceapi.ResourceClaim, wild bool, constraints int) {
	const module = `package gatekeeper
deny contains message if {
	some request in input.spec.devices.requests
	some toleration in request.exactly.tolerations
	object.get(toleration, "key", "") == ""
	message := sprintf("%s tolerates every taint", [request.name])
}`
	compiler, err := ast.CompileModules(map[string]string{"a.rego": module})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	defer reportCPU(b, cpuTime(b))
	for b.Loop() {
		data, err := json.Marshal(claim)
		if err != nil {
			b.Fatal(err)
		}
		var input map[string]any
		if err := json.Unmarshal(data, &input); err != nil {
			b.Fatal(err)
		}
		value, err := ast.InterfaceToValue(input)
		if err != nil {
			b.Fatal(err)
		}
		for range constraints {
			results, err := rego.New(rego.Compiler(compiler), rego.Query("data.gatekeeper.deny"), rego.ParsedInput(value)).Eval(b.Context())
			if err != nil || len(results) != 1 || (len(results[0].Expressions[0].Value.([]any)) > 0) != wild {
				b.Fatal(results, err)
			}
		}
	}
}

// benchmarkBare is the least that OPA takes: a prepared query for one rule that looks at
// one field.
func benchmarkBare(b *testing.B) {
	compiler, err := ast.CompileModules(map[string]string{"a.rego": "package bare\n\ndeny contains \"x\" if input.wildcard == true"})
	if err != nil {
		b.Fatal(err)
	}
	query, err := rego.New(rego.Compiler(compiler), rego.Query("data.bare.deny")).PrepareForEval(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	input := ast.NewObject([2]*ast.Term{ast.StringTerm("wildcard"), ast.BooleanTerm(true)})
	b.ReportAllocs()
	defer reportCPU(b, cpuTime(b))
	for b.Loop() {
		if results, err := query.Eval(b.Context(), rego.EvalParsedInput(input)); err != nil || len(results) != 1 {
			b.Fatal(results, err)
		}
	}
}

func wildcardIn(claim *resourceapi.ResourceClaim) bool {
	for i := range claim.Spec.Devices.Requests {
		for _, t := range claim.Spec.Devices.Requests[i].Exactly.Tolerations {
			if t.Key == "" {
				return true
			}
		}
	}
	return false
}

// toleratingClaim has eight requests of four tolerations, all the same or each another; if
// it is wild, one of them has no key.
func toleratingClaim(distinct, wild bool) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.Namespace = "training", "team-a"
	for i := range 8 {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu.example.com", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
		for j := range 4 {
			key := fmt.Sprintf("example.com/fault-%d", j)
			if distinct {
				key += fmt.Sprintf("-%d", i)
			}
			exactly.Tolerations = append(exactly.Tolerations, resourceapi.DeviceToleration{Key: key, Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoSchedule})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprintf("gpu-%d", i), Exactly: exactly})
	}
	if wild {
		claim.Spec.Devices.Requests[7].Exactly.Tolerations[3].Key = ""
	}
	return claim
}
