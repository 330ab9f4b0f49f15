package webhook_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// handlers are both handlers without HTTP, with metrics.
func handlers(t testing.TB, reviewer review.Reviewer) (mutate, validate func(*admissionv1.AdmissionRequest) admission.Response, registry *prometheus.Registry) {
	t.Helper()
	registry = prometheus.NewPedanticRegistry()
	metrics, err := webhook.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	call := func(handler admission.Handler) func(*admissionv1.AdmissionRequest) admission.Response {
		return func(req *admissionv1.AdmissionRequest) admission.Response {
			return handler.Handle(t.Context(), admission.Request{AdmissionRequest: *req})
		}
	}
	return call(webhook.Mutating(webhook.Always(reviewer), webhook.Options{Metrics: metrics})), call(webhook.Validating(webhook.Always(reviewer), webhook.Options{Metrics: metrics})), registry
}

func TestMetrics(t *testing.T) {
	mutate, check, registry := handlers(t, review.Reviewer{Limits: validate.Limits{TolerationsPerRequest: 2}})
	mutate(create("ResourceClaim", claim(1)))
	check(create("ResourceClaim", claim(1)))
	check(create("ResourceClaim", claim(3)))
	check(update("ResourceClaim", claim(3), claim(3)))
	check(create("ResourceClaim", nil))
	check(create("Widget", claim(1)))
	removal := create("ResourceClaim", nil)
	removal.Operation = admissionv1.Delete
	check(removal)

	const want = `
# HELP dra_steward_admission_answers_total Admission requests answered, by endpoint (mutate, validate, guard, pods), kind, operation and verdict (allowed, denied, errored, skipped).
# TYPE dra_steward_admission_answers_total counter
dra_steward_admission_answers_total{endpoint="mutate",kind="ResourceClaim",operation="CREATE",verdict="allowed"} 1
dra_steward_admission_answers_total{endpoint="validate",kind="",operation="",verdict="errored"} 2
dra_steward_admission_answers_total{endpoint="validate",kind="",operation="DELETE",verdict="skipped"} 1
dra_steward_admission_answers_total{endpoint="validate",kind="ResourceClaim",operation="CREATE",verdict="allowed"} 1
dra_steward_admission_answers_total{endpoint="validate",kind="ResourceClaim",operation="CREATE",verdict="denied"} 1
dra_steward_admission_answers_total{endpoint="validate",kind="ResourceClaim",operation="UPDATE",verdict="allowed"} 1
# HELP dra_steward_admission_findings_total Findings in admission requests, by the ID of the rule and severity (error, warning, audit).
# TYPE dra_steward_admission_findings_total counter
dra_steward_admission_findings_total{rule="request-tolerations-max",severity="error"} 1
dra_steward_admission_findings_total{rule="request-tolerations-max",severity="warning"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"dra_steward_admission_answers_total", "dra_steward_admission_findings_total"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if n, err := testutil.GatherAndCount(registry, "dra_steward_admission_seconds"); n != 2 || err != nil {
		t.Errorf("%d time series of seconds, want one per endpoint (%v)", n, err)
	}
}

// TestMetricsAreBounded: a client cannot fill the memory with label values of its choice:
// the webhook answers everyone who reaches it.
func TestMetricsAreBounded(t *testing.T) {
	mutate, check, registry := handlers(t, review.Reviewer{})
	for i := range 500 {
		for _, operation := range []admissionv1.Operation{"CREATE", "UPDATE", "DELETE", "CONNECT", "", admissionv1.Operation(fmt.Sprint("OP", i))} {
			for _, object := range [][]byte{claim(i % 20), nil, []byte("{")} {
				req := create(fmt.Sprint("Kind", i), object)
				req.Operation, req.Namespace, req.Name, req.UserInfo.Username = operation, fmt.Sprint("ns", i), fmt.Sprint("name", i), fmt.Sprint("user", i)
				mutate(req)
				check(req)
			}
		}
	}
	// 41 of them, of what limits refuse and let pass, exist from the start.
	if n, err := testutil.GatherAndCount(registry); n > 51 || err != nil {
		t.Errorf("%d time series, %v", n, err)
	}
}

// TestMetricsTwice: the error of a second registration is returned, not a panic.
func TestMetricsTwice(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, want := range []bool{true, false} {
		if _, err := webhook.NewMetrics(registry); (err == nil) != want {
			t.Errorf("error %v", err)
		}
	}
}
