package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestTrace: a span for each request says what it is about, the verdict and the rules.
func TestTrace(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	handler := webhook.Validating(webhook.Always(review.Reviewer{Limits: validate.Limits{TolerationsPerRequest: 2}}), webhook.Options{Tracer: provider.Tracer("test")})
	for _, test := range []struct {
		request *admissionv1.AdmissionRequest
		want    map[string]string
		status  codes.Code
	}{
		{create("ResourceClaim", claim(1)), map[string]string{"dra_steward.verdict": "allowed", "dra_steward.object.kind": "ResourceClaim", "dra_steward.rules": "[]"}, codes.Unset},
		{create("ResourceClaim", claim(3)), map[string]string{"dra_steward.verdict": "denied", "dra_steward.request.operation": "CREATE",
			"dra_steward.rules": `["request-tolerations-max"]`}, codes.Unset},
		{create("Widget", claim(1)), map[string]string{"dra_steward.verdict": "errored"}, codes.Error},
	} {
		spans.Reset()
		test.request.UserInfo.Username, test.request.Name = "jane", "some"
		test.want["dra_steward.request.user"], test.want["dra_steward.object.name"] = "jane", "some"
		handler.Handle(t.Context(), admission.Request{AdmissionRequest: *test.request})
		got := spans.GetSpans()
		if len(got) != 1 || got[0].Name != "admission validate" || got[0].Status.Code != test.status {
			t.Fatalf("spans %+v", got)
		}
		attributes := attribute.NewSet(got[0].Attributes...)
		for key, want := range test.want {
			if value, _ := attributes.Value(attribute.Key(key)); value.String() != want {
				t.Errorf("%s is %s, want %s", key, value.String(), want)
			}
		}
	}
}

// TestTraceOfTheServer: what an API server sends that traces is continued.
func TestTraceOfTheServer(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	server := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Mutating = webhook.Mutating(webhook.Always(review.Reviewer{}), webhook.Options{Tracer: provider.Tracer("test")})
	})
	review := admissionv1.AdmissionReview{Request: create("ResourceClaim", claim(1))}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+server.address+"/mutate", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if header != "" {
			request.Header.Set("Traceparent", header)
		}
		answer, err := server.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("status %s", answer.Status)
		}
	}
	got := spans.GetSpans()
	if len(got) != 1 || got[0].Parent.SpanID().String() != "b7ad6b7169203331" || got[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("spans %+v", got)
	}
}
