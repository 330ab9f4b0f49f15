package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestReactionAuthors evaluates the policies that keep a DeviceReaction from being a way to run pods, or
// to delete those of a driver.
func TestReactionAuthors(t *testing.T) {
	on := values{"controller": values{"reactions": values{"enabled": true, "restartDrivers": []any{"gpu-driver"}, "proofs": values{"enabled": true, "namespace": "checks"}}}}
	rendered := render(t, with(on), Options{})
	if n := rendered.namespace; n == nil || n.Name != "checks" || n.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace of proofs: %+v", n)
	}
	policies := rendered.policies
	const (
		plain   = `{spec: {mode: Act, when: {taint: {key: a}}}}`
		proof   = `{spec: {mode: Act, when: {taint: {key: a}}, prove: {deviceClassName: gpu, template: {spec: {}}}}}`
		widened = `{spec: {mode: Act, when: {taint: {key: b}}, prove: {deviceClassName: gpu, template: {spec: {}}}}}`
		restart = `{spec: {mode: Act, when: {taint: {key: a}}, end: {restartDriver: true, driverPods: {namespace: gpu-driver, matchLabels: {a: b}}}}}`
		stopped = `{spec: {mode: Observe, when: {taint: {key: a}}, prove: {deviceClassName: gpu, template: {spec: {}}}}}`
		changed = `{spec: {when: {taint: {key: a}}, prove: {deviceClassName: gpu, template: {spec: {a: b}}}}}`
		rests   = `{spec: {when: {taint: {key: a}}, end: {restartDriver: true, driverPods: {namespace: gpu-driver, matchLabels: {a: b}}}}}`
		moved   = `{spec: {mode: Observe, when: {taint: {key: a}}, end: {restartDriver: true, driverPods: {namespace: other, matchLabels: {a: b}}}}}`
		named   = `{spec: {mode: Act, when: {taint: {key: a}}, end: {driverPods: {namespace: gpu-driver, matchLabels: {a: b}}}}}`
	)
	for name, tt := range map[string]struct {
		policy, old, new string
		// may is what the author is allowed to do.
		may, want string
	}{
		"no proof":                  {"dra-steward-proofs", "", plain, "", ""},
		"a proof":                   {"dra-steward-proofs", "", proof, "", `user "jane" is not allowed to create jobs.batch there`},
		"a proof, allowed":          {"dra-steward-proofs", "", proof, "create batch/jobs in checks", ""},
		"allowed elsewhere":         {"dra-steward-proofs", "", proof, "create batch/jobs in default", "is not allowed to create jobs.batch there"},
		"allowed to read":           {"dra-steward-proofs", "", proof, "get batch/jobs in checks", "is not allowed to create jobs.batch there"},
		"a proof is added":          {"dra-steward-proofs", plain, proof, "", "is not allowed to create jobs.batch there"},
		"its reaction is widened":   {"dra-steward-proofs", proof, widened, "", "is not allowed to create jobs.batch there"},
		"its reaction is annotated": {"dra-steward-proofs", proof, `{metadata: {annotations: {a: b}}, ` + proof[1:], "", ""},
		"a proof is taken out":      {"dra-steward-proofs", proof, plain, "", ""},
		"a reaction is stopped":     {"dra-steward-proofs", proof, stopped, "", ""},
		"it acts again":             {"dra-steward-proofs", stopped, proof, "", "is not allowed to create jobs.batch there"},
		"stopped, another proof":    {"dra-steward-proofs", proof, changed, "", "is not allowed to create jobs.batch there"},
		"stopped from the start":    {"dra-steward-proofs", "", stopped, "", "is not allowed to create jobs.batch there"},
		"restarts are stopped":      {"dra-steward-restarts", restart, rests, "", ""},
		"restarts begin again":      {"dra-steward-restarts", rests, restart, "", `user "jane" is not allowed to delete pods there`},
		"stopped, other pods":       {"dra-steward-restarts", restart, moved, "", "is not allowed to delete pods there"},
		"a restart":                 {"dra-steward-restarts", "", restart, "", `user "jane" is not allowed to delete pods there`},
		"a restart, allowed":        {"dra-steward-restarts", "", restart, "delete /pods in gpu-driver", ""},
		"the pods of a driver":      {"dra-steward-restarts", "", named, "", ""},
		"no restart":                {"dra-steward-restarts", "", plain, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			authorCase{tt.old, tt.new, tt.may, tt.want}.run(t, policies[tt.policy], "DeviceReaction", "devicereactions")
		})
	}
}

// TestReactionAuthorsWhileOff: reactions are checked before the feature is switched on, when the controller takes up
// what is stored.
func TestReactionAuthorsWhileOff(t *testing.T) {
	policies := render(t, with(nil), Options{}).policies
	const (
		proof   = `{spec: {mode: Act, when: {taint: {key: a}}, prove: {deviceClassName: gpu, template: {spec: {}}}}}`
		restart = `{spec: {mode: Act, when: {taint: {key: a}}, end: {restartDriver: true, driverPods: {namespace: gpu-driver, matchLabels: {a: b}}}}}`
	)
	for name, tt := range map[string]struct {
		policy string
		authorCase
	}{
		"a proof":            {"dra-steward-proofs", authorCase{"", proof, "create batch/jobs in checks", `user "jane" is not allowed to create jobs.batch in all namespaces`}},
		"a proof, anywhere":  {"dra-steward-proofs", authorCase{"", proof, "create batch/jobs in ", ""}},
		"a restart":          {"dra-steward-restarts", authorCase{"", restart, "", `user "jane" is not allowed to delete pods there`}},
		"a restart, allowed": {"dra-steward-restarts", authorCase{"", restart, "delete /pods in gpu-driver", ""}},
	} {
		t.Run(name, func(t *testing.T) { tt.run(t, policies[tt.policy], "DeviceReaction", "devicereactions") })
	}
}

// An authorCase is a write by the user jane: what she is allowed to do, and what the denial says.
type authorCase struct{ old, new, may, want string }

func (a authorCase) run(t *testing.T, policy *admissionregistrationv1.ValidatingAdmissionPolicy, kind, resource string) {
	t.Helper()
	if policy == nil || *policy.Spec.FailurePolicy != "Fail" {
		t.Fatalf("%+v", policy)
	}
	attributes := attributesOf(t, write{kind: kind, resource: resource, user: user.DefaultInfo{Name: "jane"}, old: a.old, new: a.new})
	allows := authorizer.AuthorizerFunc(func(_ context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
		if r.GetUser().GetName() == "jane" && r.GetVerb()+" "+r.GetAPIGroup()+"/"+r.GetResource()+" in "+r.GetNamespace() == a.may {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	var got []string
	for _, d := range evaluator(t, policy).Validate(t.Context(), attributes.GetResource(), attributes, nil, &corev1.Namespace{}, celconfig.RuntimeCELCostBudget, allows).Decisions {
		if d.Evaluation == validating.EvalError {
			t.Fatal(d.Message)
		}
		if d.Action == validating.ActionDeny {
			got = append(got, d.Message)
		}
	}
	if text := strings.Join(got, "; "); (text == "") != (a.want == "") || !strings.Contains(text, a.want) {
		t.Errorf("got %q, want %q", text, a.want)
	}
}

// TestNamespaceTwice: a namespace of drivers that is named twice is no object twice, which helm refuses.
func TestNamespaceTwice(t *testing.T) {
	twice := []any{"gpu-driver", "nic-driver", "gpu-driver"}
	objects, err := Render(values{"controller": values{"reactions": values{"enabled": true, "restartDrivers": twice},
		"rolls": values{"enabled": true, "driverNamespaces": twice, "proofNamespaces": twice}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, o := range objects {
		key := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
	}
	if !seen["Role gpu-driver/dra-steward-controller-drivers"] || !seen["RoleBinding nic-driver/dra-steward-controller-drivers"] {
		t.Errorf("no Role or no RoleBinding for drivers: %v", seen)
	}
	text, err := json.Marshal(objects)
	if err != nil || !strings.Contains(string(text), `"--restart-drivers=gpu-driver,nic-driver"`) {
		t.Errorf("no argument with each namespace once: %v", err)
	}
}
