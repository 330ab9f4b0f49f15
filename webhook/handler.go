package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// A ReviewerFunc returns the Reviewer in force. Each request is checked by one Reviewer
// from beginning to end.
type ReviewerFunc func() review.Reviewer

const guardEndpoint = "guard"

// Options are where a handler reports its answers. The zero value reports nothing.
type Options struct {
	// Log receives errors. The zero value discards them.
	Log logr.Logger
	// Metrics counts and times requests; nil counts none.
	Metrics *Metrics
	// Decisions logs the answers; nil logs none.
	Decisions *Decisions
	// Tracer records a span for each request: object, verdict and rules; nil records none.
	// If the HTTP request has a traceparent, the span is a part of that trace.
	Tracer trace.Tracer
	// Brief leaves messages, exemptions and effects out of answers to callers without a client
	// certificate of an API server. These read the field and the ID of the rule. The log of
	// decisions has the messages.
	Brief bool
}

// handler adapts one step of the review to admission, for all kinds.
type handler struct {
	Options
	endpoint string
	source   ReviewerFunc
	step     func(review.Reviewer, review.Request) (review.Answer, error)
}

var _ admission.Handler = handler{}

// Mutating returns the handler that fills in defaults.
func Mutating(source ReviewerFunc, o Options) admission.Handler {
	return o.handler("mutate", source, review.Reviewer.Mutate)
}

// Validating returns the handler that denies and warns.
func Validating(source ReviewerFunc, o Options) admission.Handler {
	return o.handler("validate", source, review.Reviewer.Validate)
}

// Guarding returns the handler that checks the impact of a write.
func Guarding(source ReviewerFunc, o Options) admission.Handler {
	return o.handler(guardEndpoint, source, review.Reviewer.Guard)
}

func (o Options) handler(endpoint string, source ReviewerFunc, step func(review.Reviewer, review.Request) (review.Answer, error)) handler {
	return handler{o, endpoint, source, step}
}

// Handle answers one request. Admitted writes are remembered for the guard and for the authors of
// slices, except in a dry run.
func (h handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	start := time.Now()
	span := h.begin(ctx, req)
	response, verdict := h.answer(ctx, req, start, span)
	end(span, verdict)
	h.Metrics.observe(h.endpoint, req, verdict, time.Since(start))
	return response
}

func (h handler) answer(ctx context.Context, req admission.Request, now time.Time, span trace.Span) (admission.Response, string) {
	switch req.Operation {
	case admissionv1.Create, admissionv1.Update:
		if endsPod(req) {
			return admission.Allowed(""), verdictSkipped
		}
	case admissionv1.Delete, admissionv1.Connect:
		return admission.Allowed(""), verdictSkipped // deletions are always allowed
	default:
		return errored(fmt.Errorf("operation %q: an AdmissionReview with a request to CREATE, UPDATE, DELETE or CONNECT is expected", req.Operation)), verdictErrored
	}
	reviewer := h.source()
	reviewer.InCluster = true
	if cheap(ctx) {
		if h.endpoint == guardEndpoint {
			return admission.Allowed(""), verdictSkipped
		}
		reviewer.Policies, reviewer.ClusterView = reviewer.Policies.BoundsOnly(), nil
	}
	answer, err := h.step(reviewer, review.Request{
		Context:     ctx,
		Kind:        schema.GroupVersionKind(req.Kind),
		Subresource: req.SubResource,
		Object:      req.Object.Raw,
		Old:         req.OldObject.Raw,
		Namespace:   req.Namespace,
		User:        &req.UserInfo,
		DryRun:      req.DryRun != nil && *req.DryRun,
		Now:         now,
	})
	if err != nil {
		h.Log.Error(err, "cannot check a request", "kind", req.Kind, "namespace", req.Namespace, "name", req.Name, "uid", req.UID)
		return h.unreadable(ctx, req, reviewer.Unreadable(), err), verdictErrored
	}
	h.Metrics.count(answer)
	h.Decisions.record(h.endpoint, req, answer)
	addAnswer(span, answer)
	return h.respond(ctx, req, answer)
}

// unreadable answers a request that cannot be read: as the mode says, and always with a warning where whoever writes must
// not be stopped.
func (h handler) unreadable(ctx context.Context, req admission.Request, severity validate.Severity, err error) admission.Response {
	wrong, passes := h.redactError(ctx, err), mayPass(ctx)
	if !errors.As(err, new(review.UnknownKindError)) {
		passes = passes || severity != validate.Error || req.SubResource == "status" || keeps(req)
	}
	if !passes {
		return errored(wrong)
	}
	response := h.Metrics.unchecked(h.endpoint, "error")
	if severity != validate.Audit {
		response.Warnings = []string{named("not checked: "+wrong.Error(), ruleid.RequestError)}
	}
	return response
}

// keeps reports whether an update changes nothing that is checked. Who takes a finalizer off an object that cannot be
// read must not be stopped.
func keeps(req admission.Request) bool {
	type kept struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec json.RawMessage `json:"spec"`
	}
	var is, was kept
	if req.Operation != admissionv1.Update || json.Unmarshal(req.Object.Raw, &is) != nil || json.Unmarshal(req.OldObject.Raw, &was) != nil {
		return false
	}
	return len(is.Spec) > 0 && bytes.Equal(is.Spec, was.Spec) && maps.Equal(is.Metadata.Labels, was.Metadata.Labels) && maps.Equal(is.Metadata.Annotations, was.Metadata.Annotations)
}

// respond makes the response and its verdict of an answer.
func (h handler) respond(ctx context.Context, req admission.Request, answer review.Answer) (admission.Response, string) {
	answer = h.redact(ctx, answer)
	if answer.Denied() {
		return annotated(ctx, denied(req, answer), answer), verdictDenied
	}
	response := annotated(ctx, allowed(answer), answer)
	if answer.Unchecked() {
		h.Metrics.pass(h.endpoint, "deadline")
		response.AuditAnnotations = withUnchecked(response.AuditAnnotations, "deadline")
	}
	return response, verdictAllowed
}

// errored answers a request that cannot be checked with a denial: the failurePolicy is for
// webhooks that do not answer.
func errored(err error) admission.Response {
	code := int32(http.StatusBadRequest)
	if unknown := (review.UnknownKindError{}); errors.As(err, &unknown) {
		code = http.StatusUnprocessableEntity
	}
	return admission.Errored(code, errors.New(named(err.Error(), ruleid.RequestError)))
}

func allowed(answer review.Answer) admission.Response {
	response := admission.Allowed("")
	for _, change := range answer.Changes {
		operation := "add"
		if change.Remove {
			operation = "remove"
		}
		response.Patches = append(response.Patches, jsonpatch.NewOperation(operation, change.Pointer, change.Value))
	}
	response.Warnings = warnings(answer)
	return response
}
