package review_test

import (
	"fmt"
	"testing"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestForbiddenUpdates: a rule about the update of an object applies although nothing is
// wrong with the new object itself.
func TestForbiddenUpdates(t *testing.T) {
	claim := func(count int) string {
		return fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "some", "namespace": "team-a"},
			"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": %d}}]}}}`, count)
	}
	class := func(name string) string {
		return fmt.Sprintf(`{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": %q}, "spec": {}}`, name)
	}
	drain := func(device string) string {
		return fmt.Sprintf(`{"apiVersion": "dra-steward.io/v1alpha1", "kind": "DeviceDrain", "metadata": {"name": "some"},
			"spec": {"devices": [{"driver": "gpu.example.com", "pool": "node-1", "device": %q}]}}`, device)
	}
	for _, test := range []struct{ group, version, kind, old, object, rule string }{
		{"resource.k8s.io", "v1", "ResourceClaim", claim(1), claim(2), "spec-immutable"},
		{"resource.k8s.io", "v1", "DeviceClass", class("one"), class("other"), "metadata-immutable"},
		{"dra-steward.io", "v1alpha1", "DeviceDrain", drain("gpu-0"), drain("gpu-1"), "drain-immutable"},
	} {
		req := request(test.version, test.kind, "", test.object, test.old)
		req.Kind.Group = test.group
		for step, ask := range map[string]func(review.Request) (review.Answer, error){"Validate": review.Reviewer{}.Validate, "Review": review.Reviewer{}.Review} {
			answer, err := ask(req)
			if err != nil {
				t.Fatal(err)
			}
			if !answer.Denied() || answer.Findings[0].Rule != test.rule {
				t.Errorf("%s of a %s: %+v, want %s", step, test.kind, answer.Findings, test.rule)
			}
			same := req
			same.Object = req.Old
			if answer, err = ask(same); err != nil || answer.Denied() {
				t.Errorf("%s of a %s without a change: %+v, %v", step, test.kind, answer.Findings, err)
			}
		}
	}
}
