package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// logged answers the requests and returns the lines of the log, and how often a line was
// left out, by why.
func logged(t *testing.T, settings webhook.DecisionSettings, requests ...*admissionv1.AdmissionRequest) (lines []map[string]any, out prometheus.Gatherer) {
	t.Helper()
	var text bytes.Buffer
	registry := prometheus.NewPedanticRegistry()
	decisions, err := webhook.NewDecisions(settings, logr.FromSlogHandler(slog.NewJSONHandler(&text, nil)), registry)
	if err != nil {
		t.Fatal(err)
	}
	reviewer := review.Reviewer{Limits: validate.Limits{TolerationsPerRequest: 2}}
	handler := webhook.Validating(webhook.Always(reviewer), webhook.Options{Decisions: decisions})
	for _, req := range requests {
		handler.Handle(t.Context(), admission.Request{AdmissionRequest: *req})
	}
	for line := range strings.Lines(text.String()) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	return lines, registry
}

func with(req *admissionv1.AdmissionRequest, uid string) *admissionv1.AdmissionRequest {
	req.UID = types.UID(uid)
	req.UserInfo.Username = "jane"
	return req
}

func TestDecisionsAreLogged(t *testing.T) {
	all := webhook.DecisionSettings{Denied: 1, Warned: 1}
	lines, _ := logged(t, all,
		with(create("ResourceClaim", claim(1)), "fine"),
		with(create("ResourceClaim", claim(3)), "refused"),
		with(update("ResourceClaim", claim(3), claim(3)), "tolerated"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one for what is refused and one for the warning: %v", len(lines), lines)
	}
	for i, want := range []map[string]string{
		{"verdict": "denied", "uid": "refused", "operation": "CREATE", "kind": "ResourceClaim", "user": "jane", "endpoint": "validate", "dryRun": "false"},
		{"verdict": "warned", "uid": "tolerated", "operation": "UPDATE"},
	} {
		for field, value := range want {
			if got := fmt.Sprint(lines[i][field]); got != value {
				t.Errorf("line %d: %s is %s, want %s", i, field, got, value)
			}
		}
		for _, field := range []string{"namespace", "name", "group"} {
			if _, ok := lines[i][field]; !ok {
				t.Errorf("line %d has no %s", i, field)
			}
		}
		if got := fmt.Sprint(lines[i]["rules"]); got != "[request-tolerations-max]" {
			t.Errorf("line %d: rules are %s", i, got)
		}
	}
}

func TestDecisionsAreSampled(t *testing.T) {
	var requests []*admissionv1.AdmissionRequest
	for i := range 2000 {
		requests = append(requests, with(create("ResourceClaim", claim(3)), fmt.Sprintf("uid-%d", i)))
	}
	quarter, registry := logged(t, webhook.DecisionSettings{Denied: 0.25}, requests...)
	if n := len(quarter); n < 400 || n > 600 {
		t.Errorf("%d of 2000 were logged, want about 500", n)
	}
	want := fmt.Sprintf(`
# HELP dra_steward_decision_log_total Decision log entries, by result: logged, sampled (omitted by the sampling rate) or limited (omitted by the limit per second).
# TYPE dra_steward_decision_log_total counter
dra_steward_decision_log_total{result="logged"} %d
dra_steward_decision_log_total{result="sampled"} %d
`, len(quarter), 2000-len(quarter))
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	half, _ := logged(t, webhook.DecisionSettings{Denied: 0.5}, requests...)
	chosen := map[any]bool{}
	for _, line := range half {
		chosen[line["uid"]] = true
	}
	for _, line := range quarter {
		if !chosen[line["uid"]] {
			t.Fatalf("%v is logged at a quarter and not at a half", line["uid"])
		}
	}
	if none, _ := logged(t, webhook.DecisionSettings{Warned: 1}, requests...); len(none) != 0 {
		t.Errorf("%d denials were logged, want none", len(none))
	}
}

func TestDecisionsAreLimited(t *testing.T) {
	var requests []*admissionv1.AdmissionRequest
	for i := range 50 {
		requests = append(requests, with(create("ResourceClaim", claim(3)), fmt.Sprintf("uid-%d", i)))
	}
	// One line in a hundred thousand seconds, after the first.
	if lines, _ := logged(t, webhook.DecisionSettings{Denied: 1, PerSecond: 0.00001}, requests...); len(lines) != 1 {
		t.Errorf("%d lines, want 1", len(lines))
	}
}

func TestDecisionSettings(t *testing.T) {
	for _, s := range []webhook.DecisionSettings{{Denied: -0.1}, {Warned: 1.1}, {Denied: math.NaN()}, {PerSecond: -1}, {PerSecond: math.Inf(1)}} {
		if _, err := webhook.NewDecisions(s, logr.Discard(), prometheus.NewRegistry()); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if _, err := webhook.NewDecisions(webhook.DecisionSettings{}, logr.Discard(), prometheus.NewRegistry()); err != nil {
		t.Error(err)
	}
}
