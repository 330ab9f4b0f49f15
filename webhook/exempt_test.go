package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
)

// TestAuthor: who is exempt follows from the user and the namespace of the request, and the
// audit log and the metrics record it.
func TestAuthor(t *testing.T) {
	reviewer, err := review.New(v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{{
		Rules: []string{"request-tolerations-max"}, Namespaces: []string{"ml"}, Groups: []string{"admins"},
		Reason: "until they have moved", Expires: metav1.NewTime(time.Now().Add(time.Hour)),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	_, validate, registry := handlers(t, reviewer)
	req := create("ResourceClaim", claim(17))
	req.Namespace, req.UserInfo.Username, req.UserInfo.Groups = "ml", "jane", []string{"admins"}
	got := validate(req)
	if !got.Allowed || len(got.Warnings) > 0 || !strings.Contains(got.AuditAnnotations["exempted"], "until they have moved") ||
		!strings.Contains(got.AuditAnnotations["exempted"], "rule request-tolerations-max") {
		t.Errorf("exempt: %+v", got)
	}
	req.UserInfo.Groups = nil
	if got = validate(req); got.Allowed || !strings.Contains(got.AuditAnnotations["findings"], "error: spec.devices.requests[gpu]") {
		t.Errorf("not exempt: %+v", got)
	}
	req.UserInfo.Username = "system:kube-scheduler"
	if got = validate(req); !got.Allowed {
		t.Errorf("the scheduler: %+v", got)
	}
	const metrics = `
# HELP dra_steward_admission_exempted_total Findings in admission requests that an exemption or the author's identity admitted, by the ID of the rule.
# TYPE dra_steward_admission_exempted_total counter
dra_steward_admission_exempted_total{rule="request-tolerations-max"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(metrics), "dra_steward_admission_exempted_total"); err != nil {
		t.Error(err)
	}
}
