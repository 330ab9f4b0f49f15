package webhook

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
)

// begin starts the span of a request; nil without a tracer.
func (h handler) begin(ctx context.Context, req admission.Request) trace.Span {
	if h.Tracer == nil {
		return nil
	}
	_, span := h.Tracer.Start(ctx, "admission "+h.endpoint, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("dra_steward.request.uid", string(req.UID)),
		attribute.String("dra_steward.request.operation", string(req.Operation)),
		attribute.String("dra_steward.request.user", req.UserInfo.Username),
		attribute.Bool("dra_steward.request.dry_run", req.DryRun != nil && *req.DryRun),
		attribute.String("dra_steward.object.group", req.Kind.Group),
		attribute.String("dra_steward.object.kind", req.Kind.Kind),
		attribute.String("dra_steward.object.name", req.Name),
		attribute.String("k8s.namespace.name", req.Namespace),
	))
	return span
}

// addAnswer adds the content of an answer to a span, which may be nil.
func addAnswer(span trace.Span, answer review.Answer) {
	if span == nil || !span.IsRecording() {
		return
	}
	rules, _ := described(answer)
	span.SetAttributes(attribute.StringSlice("dra_steward.rules", rules), attribute.Bool("dra_steward.policies.cached", answer.Decision.Cached))
}

// end ends a span, which may be nil.
func end(span trace.Span, verdict string) {
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("dra_steward.verdict", verdict))
	if verdict == verdictErrored {
		span.SetStatus(codes.Error, "the request cannot be checked")
	}
	span.End()
}

// traced hands on the trace that a request belongs to.
func traced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "" {
			r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		}
		next.ServeHTTP(w, r)
	})
}
