package policies_test

import (
	"io/fs"
	"testing"

	"github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/policies"
)

// exported returns the expression of an admission.yaml that is true for what violates the policy.
func exported(t *testing.T, name string) cel.Program {
	t.Helper()
	data, err := fs.ReadFile(policies.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	form := struct {
		Violations []struct{ When string }
	}{}
	if err := yaml.Unmarshal(data, &form); err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("variables", cel.DynType), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	compiled, issues := env.Compile(form.Violations[0].When)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(compiled)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// TestPreview: only the condition with what the rule evicts is a preview, in both forms of the policy.
func TestPreview(t *testing.T) {
	const code = "DRA-RULE-003"
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.NewEngine(set, policy.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	program := exported(t, "rule-without-preview/admission.yaml")
	for name, test := range map[string]struct {
		condition metav1.Condition
		previewed bool
	}{
		"the preview":                    {metav1.Condition{Type: resourceapi.DeviceTaintConditionEvictionInProgress, Reason: "NoEffect", ObservedGeneration: 2}, true},
		"the preview of an earlier spec": {metav1.Condition{Type: resourceapi.DeviceTaintConditionEvictionInProgress, Reason: "NoEffect", ObservedGeneration: 1}, false},
		"when it stopped evicting":       {metav1.Condition{Type: guard.BeganCondition, ObservedGeneration: 2}, false},
		"a part of the pods":             {metav1.Condition{Type: "dra-steward.io/EvictionInProgress", Reason: "NoEffect", ObservedGeneration: 2}, false},
		"a condition of another tool":    {metav1.Condition{Type: "example.com/Approved", ObservedGeneration: 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			old := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "maintenance", Generation: 2}, Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")},
				Taint:          resourceapi.DeviceTaint{Key: "example.com/maintenance", Effect: resourceapi.DeviceTaintEffectNone},
			}, Status: resourceapi.DeviceTaintRuleStatus{Conditions: []metav1.Condition{test.condition}}}
			rule := old.DeepCopy()
			rule.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoExecute
			denied := false
			for _, v := range engine.Evaluate(t.Context(), policy.Request{Kind: "DeviceTaintRule", Name: rule.Name, Object: rule, Old: old}).Violations {
				denied = denied || v.Code == code
			}
			if denied == test.previewed {
				t.Errorf("the policy denies it: %t", denied)
			}
			got, _, err := program.Eval(map[string]any{"variables": map[string]any{"evicts": true}, "object": fields(t, rule), "oldObject": fields(t, old)})
			if err != nil || got.Value() == test.previewed {
				t.Errorf("the exported policy denies it: %v, %v", got, err)
			}
		})
	}
}

func fields(t *testing.T, rule *resourceapi.DeviceTaintRule) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}
