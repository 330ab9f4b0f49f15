package chart

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TestStatusWriters evaluates the policy that lets only the controller, and the break-glass group,
// write the status of our objects.
func TestStatusWriters(t *testing.T) {
	const controller = "system:serviceaccount:dra-steward:dra-steward-controller"
	for name, tt := range map[string]struct {
		values  values
		user    user.DefaultInfo
		accepts bool
	}{
		"the controller":            {nil, user.DefaultInfo{Name: controller}, true},
		"a tenant":                  {nil, user.DefaultInfo{Name: "jane", Groups: []string{"edit"}}, false},
		"without groups":            {nil, user.DefaultInfo{Name: "jane"}, false},
		"the node agent":            {nil, user.DefaultInfo{Name: "system:serviceaccount:dra-steward:dra-steward-node"}, false},
		"of another namespace":      {nil, user.DefaultInfo{Name: "system:serviceaccount:ml:dra-steward-controller"}, false},
		"break glass":               {nil, user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}, true},
		"another break-glass group": {values{"statusBreakGlassGroup": "repair"}, user.DefaultInfo{Name: "root", Groups: []string{"system:masters"}}, false},
		"no break-glass group":      {values{"statusBreakGlassGroup": ""}, user.DefaultInfo{Name: "root", Groups: []string{"", "system:masters"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy := render(t, with(tt.values), Options{}).policies["dra-steward-statuses"]
			if policy == nil || *policy.Spec.FailurePolicy != "Fail" {
				t.Fatalf("%+v", policy)
			}
			attributes := attributesOf(t, write{kind: "DeviceDrain", resource: "devicedrains", user: tt.user, old: `{spec: {}}`, new: `{spec: {}, status: {}}`})
			decisions := evaluator(t, policy).Validate(t.Context(), attributes.GetResource(), attributes, nil, &corev1.Namespace{}, celconfig.RuntimeCELCostBudget, nil).Decisions
			denied := slices.ContainsFunc(decisions, func(d validating.PolicyDecision) bool {
				if d.Evaluation == validating.EvalError {
					t.Error(d.Message)
				}
				return d.Action == validating.ActionDeny
			})
			if denied == tt.accepts {
				t.Errorf("got %+v", decisions)
			}
		})
	}
}
