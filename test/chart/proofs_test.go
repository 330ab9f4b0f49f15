package chart

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/pkg/mutate"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestProofExemption: in mode enforce, the controller creates the claims of proofs in their namespaces, whatever the
// policies about the cordon and the cause are. The exemption is for no other user, toleration or namespace.
func TestProofExemption(t *testing.T) {
	r := render(t, with(values{
		"mode":       "enforce",
		"exemptions": []any{values{"rules": []any{"claim-empty"}, "namespaces": []any{"ml"}, "reason": "a", "expires": "2099-01-01T00:00:00Z"}},
		"policies":   values{"modes": values{"DRA-TOL-003": "deny"}, "parameters": values{"DRA-TOL-003": values{"allowed": []any{"example.com/allowed"}}}},
		"controller": values{
			"reactions": values{"enabled": true, "proofs": values{"enabled": true, "namespace": "proofs"}},
			"rolls":     values{"enabled": true, "proofNamespaces": []any{"gpu-proofs", "proofs"}},
		},
	}), Options{})
	file, err := config.Parse("config.yaml", []byte(r.config.Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Exemptions) != 2 || file.Exemptions[0].Rules[0] != "claim-empty" {
		t.Errorf("exemptions: %+v, want that of the values first", file.Exemptions)
	}
	set, err := policy.Parse(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	reviewer, err := policyload.NewReviewer(file, policyload.Files{Set: set}, 0)
	if err != nil {
		t.Fatal(err)
	}
	reviewer.InCluster = true
	file.Defaults.Tolerations = &v1alpha1.Tolerations{Rules: []v1alpha1.TolerationRule{{MaxSeconds: new(int64(3600))}}}
	rewriter, err := policyload.NewReviewer(file, policyload.Files{Set: set}, 0)
	if err != nil {
		t.Fatal(err)
	}
	proof := []resourceapi.DeviceToleration{
		{Key: "dra-steward.io/drain", Operator: resourceapi.DeviceTolerationOpEqual, Value: "drain", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		{Key: "gpu.nvidia.com/xid", Operator: resourceapi.DeviceTolerationOpEqual, Effect: resourceapi.DeviceTaintEffectNoExecute},
	}
	const controller = "system:serviceaccount:dra-steward:dra-steward-controller"
	for name, tt := range map[string]struct {
		namespace, user string
		tolerations     []resourceapi.DeviceToleration
		denied          bool
	}{
		"of a reaction":       {"proofs", controller, proof, false},
		"of a roll":           {"gpu-proofs", controller, proof[:1], false},
		"by a tenant":         {"proofs", "jane", proof, true},
		"by a pod of a proof": {"proofs", "system:serviceaccount:proofs:dra-steward-controller", proof, true},
		"elsewhere":           {"ml", controller, proof, true},
		"of every taint":      {"proofs", controller, []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}, true},
	} {
		claim := &resourceapi.ResourceClaim{TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"}, ObjectMeta: metav1.ObjectMeta{Name: "proof", Namespace: tt.namespace}}
		claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "device", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1, Tolerations: tt.tolerations}}}
		object, err := json.Marshal(claim)
		if err != nil {
			t.Fatal(err)
		}
		req := review.Request{Kind: claim.GroupVersionKind(), Object: object, Namespace: tt.namespace, Now: time.Now(), User: &authenticationv1.UserInfo{Username: tt.user}}
		mutated, err := rewriter.Mutate(req)
		kept := tt.user == controller && tt.namespace != "ml"
		if rewritten := slices.ContainsFunc(mutated.Changes, func(c mutate.Change) bool { return c.Default == "toleration-rewrite" }); err != nil || rewritten == kept {
			t.Errorf("%s: changes %+v, %v, want kept %t", name, mutated.Changes, err, kept)
		}
		answer, err := reviewer.Validate(req)
		if err != nil || answer.Denied() != tt.denied {
			t.Errorf("%s: denied %t, %v: %v", name, answer.Denied(), err, answer.Findings)
		}
	}
	if file, err := config.Parse("config.yaml", []byte(render(t, with(nil), Options{}).config.Data["config.yaml"])); err != nil || len(file.Exemptions) != 0 {
		t.Errorf("without proofs: %v, %v", file.Exemptions, err)
	}
}
