package chart

import (
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// A write is a request that a ValidatingAdmissionPolicy evaluates.
type write struct {
	kind, resource string // such as Namespace, namespaces/status
	user           user.DefaultInfo
	old, new       string
}

// denials evaluates a policy with the API server's own code, as the oldest supported
// server does. An expression that fails ends the test.
func denials(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy, w write) (messages []string) {
	t.Helper()
	attributes := attributesOf(t, w)
	result := evaluator(t, policy).Validate(t.Context(), attributes.GetResource(), attributes, nil, &corev1.Namespace{}, celconfig.RuntimeCELCostBudget, nil)
	for _, decision := range result.Decisions {
		if decision.Evaluation == validating.EvalError {
			t.Fatalf("%s: %s", policy.Name, decision.Message)
		}
		if decision.Action == validating.ActionDeny {
			messages = append(messages, decision.Message)
		}
	}
	return messages
}

// evaluator compiles a policy as k8s.io/apiserver does, whose function is not exported.
func evaluator(t *testing.T, policy *admissionv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(oldest)
	if err != nil {
		t.Fatal(err)
	}
	declared := cel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, declared, environment.NewExpressions)
	var conditions, checks, messages []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, v := range policy.Spec.Validations {
		checks = append(checks, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	compile := func(all []cel.ExpressionAccessor, declared cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
		for _, one := range all {
			if result := compiler.CompileCELExpression(one, declared, environment.NewExpressions); result.Error != nil {
				t.Fatalf("%s: %s: %v", policy.Name, one.GetExpression(), result.Error)
			}
		}
		return compiler.CompileCondition(all, declared, environment.NewExpressions)
	}
	matcher := matchconditions.NewMatcher(compile(conditions, declared), policy.Spec.FailurePolicy, "policy", "validate", policy.Name)
	withoutAuthorizer := declared
	withoutAuthorizer.HasAuthorizer = false
	return validating.NewValidator(compile(checks, declared), matcher, compile(nil, declared), compile(messages, withoutAuthorizer), policy.Spec.FailurePolicy, nil)
}

func attributesOf(t *testing.T, w write) *admission.VersionedAttributes {
	t.Helper()
	gvk := schema.GroupVersionKind{Version: "v1", Kind: w.kind}
	resource, subresource, _ := strings.Cut(w.resource, "/")
	operation, old := admission.Create, runtime.Object(nil)
	versioned := &admission.VersionedAttributes{VersionedKind: gvk}
	if w.old != "" {
		operation, old = admission.Update, parse(t, w.old)
		versioned.VersionedOldObject.Set(old)
	}
	versioned.VersionedObject.Set(parse(t, w.new))
	versioned.Attributes = admission.NewAttributesRecord(parse(t, w.new), old, gvk, "", "a",
		gvk.GroupVersion().WithResource(resource), subresource, operation, nil, false, &w.user)
	return versioned
}

// TestProtectedLabels evaluates the policy that keeps users from changing protected labels.
func TestProtectedLabels(t *testing.T) {
	protecting := values{"protectedLabels": values{"keys": []any{"example.com/tier", "zone"}, "users": []any{"root"}, "groups": []any{"admins"}}}
	policy := render(t, with(protecting), Options{}).policies["dra-steward-protected-labels"]
	if policy == nil || *policy.Spec.FailurePolicy != admissionv1.Fail {
		t.Fatalf("the policy is %+v", policy)
	}
	rule := policy.Spec.MatchConstraints.ResourceRules[0]
	if !slices.Equal(rule.Resources, []string{"namespaces", "namespaces/status", "namespaces/finalize"}) || !slices.Equal(rule.Operations, writes) {
		t.Errorf("matches %v", rule)
	}
	jane := user.DefaultInfo{Name: "jane", Groups: []string{"dev"}}
	for name, tt := range map[string]struct {
		user     user.DefaultInfo
		old, new string
		want     string
	}{
		"no labels at all":            {jane, object(""), object("annotations: {zone: a}"), ""},
		"another label":               {jane, object("labels: {zone: a, b: c}"), object("labels: {zone: a}"), ""},
		"set":                         {jane, object("labels: {a: b}"), object("labels: {a: b, zone: a}"), "zone"},
		"set to empty":                {jane, object(""), object(`labels: {zone: ""}`), "zone"},
		"emptied":                     {jane, object("labels: {zone: a}"), object(`labels: {zone: ""}`), "zone"},
		"changed":                     {jane, object("labels: {zone: a, example.com/tier: gold}"), object("labels: {zone: b, example.com/tier: silver}"), "example.com/tier, zone"},
		"all labels removed":          {jane, object("labels: {zone: a}"), object(""), "zone"},
		"a new namespace with it":     {jane, "", object("labels: {zone: a}"), "zone"},
		"a new namespace without it":  {jane, "", object("labels: {a: b}"), ""},
		"a new namespace with none":   {jane, "", object(""), ""},
		"a user without groups":       {user.DefaultInfo{Name: "joe"}, object(""), object("labels: {zone: a}"), "zone"},
		"a user who is named":         {user.DefaultInfo{Name: "root"}, object(""), object("labels: {zone: a}"), ""},
		"a member of a group":         {user.DefaultInfo{Name: "joe", Groups: []string{"x", "admins"}}, object(""), object("labels: {zone: a}"), ""},
		"the break-glass group":       {user.DefaultInfo{Name: "joe", Groups: []string{"system:masters"}}, object(""), object("labels: {zone: a}"), ""},
		"a group called like a user ": {user.DefaultInfo{Name: "joe", Groups: []string{"root"}}, object(""), object("labels: {zone: a}"), "zone"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, resource := range rule.Resources {
				got := denials(t, policy, write{kind: "Namespace", resource: resource, user: tt.user, old: tt.old, new: tt.new})
				if len(got) != min(len(tt.want), 1) || len(got) > 0 && !strings.Contains(got[0], "the label "+tt.want+": only") {
					t.Errorf("%s: got %q, want a denial because of %q", resource, got, tt.want)
				}
			}
		})
	}
	withoutGroup := values{"protectedLabels": values{"keys": []any{"zone"}, "users": []any{"root"}, "breakGlassGroup": ""}}
	closed := render(t, with(withoutGroup), Options{}).policies["dra-steward-protected-labels"]
	masters := write{kind: "Namespace", resource: "namespaces", user: user.DefaultInfo{Name: "joe", Groups: []string{"system:masters"}}, old: object(""), new: object("labels: {zone: a}")}
	if got := denials(t, closed, masters); len(got) != 1 {
		t.Errorf("no break-glass group: got %q, want one denial", got)
	}
}

// TestProtectedLabelsRendered: the policy exists while labels are protected, acts as the
// mode says, and the webhook's configuration has the keys.
func TestProtectedLabelsRendered(t *testing.T) {
	const protected = "dra-steward-protected-labels"
	if r := render(t, with(nil), Options{}); r.policies[protected] != nil || r.bindings[protected] != nil {
		t.Errorf("no label is protected: got %v, %v", r.policies, r.bindings)
	}
	for mode, want := range map[string][]admissionv1.ValidationAction{"observe": {"Audit"}, "warn": {"Warn", "Audit"}, "default": {"Deny"}, "enforce": {"Deny"}} {
		r := render(t, with(values{"mode": mode, "protectedLabels": values{"keys": []any{"zone"}, "groups": []any{"admins"}}}), Options{})
		binding := r.bindings["dra-steward-protected-labels"]
		if binding == nil || r.policies[binding.Spec.PolicyName] == nil || !slices.Equal(binding.Spec.ValidationActions, want) {
			t.Errorf("mode %s: got %+v, want the actions %v", mode, binding, want)
		}
		if config := r.config.Data["config.yaml"]; !strings.Contains(config, "protectedLabels:\n  keys: [\"zone\"]\n") {
			t.Errorf("the configuration lacks the keys:\n%s", config)
		}
	}
	r := render(t, with(values{"protectedLabels": values{"keys": []any{"zone"}, "tenant": "zone"}}), Options{})
	if config := r.config.Data["config.yaml"]; !strings.Contains(config, "  tenant: \"zone\"\n") {
		t.Errorf("the configuration lacks the tenant's label:\n%s", config)
	}
	for want, wrong := range map[string]values{
		"tenant: must be one of":   {"keys": []any{"zone"}, "tenant": "other"},
		"name the users or groups": {"keys": []any{"zone"}, "breakGlassGroup": ""},
		"pattern":                  {"keys": []any{"a b"}, "users": []any{"root"}},
		"not":                      {"keys": []any{"kubernetes.io/metadata.name"}, "users": []any{"root"}},
	} {
		if _, err := Render(with(values{"protectedLabels": wrong}), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", wrong, err, want)
		}
	}
}

// TestRequestTimeout: the webhook knows how long API servers wait at most, whichever webhook they call.
func TestRequestTimeout(t *testing.T) {
	for _, c := range []struct {
		guard    int
		policies bool
		want     string
	}{{5, true, "10s"}, {1, true, "10s"}, {5, false, "5s"}, {1, false, "3s"}} {
		r := render(t, with(values{"webhooks": values{"guard": values{"timeoutSeconds": c.guard}}, "policies": values{"configMaps": c.policies}}), Options{})
		if got := argument(t, r.deployment.Spec.Template.Spec.Containers[0], "--request-timeout"); got != c.want {
			t.Errorf("%+v: --request-timeout=%s", c, got)
		}
		for _, webhook := range r.validating.Webhooks {
			if limit, err := time.ParseDuration(c.want); err != nil || time.Duration(*webhook.TimeoutSeconds)*time.Second > limit {
				t.Errorf("%+v: API servers wait %d s for %s", c, *webhook.TimeoutSeconds, webhook.Name)
			}
		}
	}
}
