package devicedrain_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/drain"
	"github.com/dra-steward/dra-steward/pkg/policy"
)

// TestCordonsHaveAnOwner: the policy that asks for the owner and the reason of a rule finds both
// in the rules of a drain, for any author.
func TestCordonsHaveAnOwner(t *testing.T) {
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.NewEngine(set, policy.Settings{Modes: map[string]policy.Mode{"DRA-RULE-007": policy.Deny}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "firmware", UID: "1"}}
	rule := drain.Rule(d, v1alpha1.DeviceName{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"})
	write := policy.Request{Kind: "DeviceTaintRule", Name: rule.Name, User: "jane", Object: rule, Now: time.Now()}
	if decision := engine.Evaluate(t.Context(), write); len(decision.Violations) > 0 || decision.Err() != nil {
		t.Errorf("%+v", decision)
	}
	rule.Annotations = nil
	if decision := engine.Evaluate(t.Context(), write); len(decision.Violations) != 1 {
		t.Errorf("without annotations: %+v", decision)
	}
}
