package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/internal/rules/ruleid"
)

// admitted is what a Server has found out about a request before a handler gets it.
type admitted struct {
	held *resources
	slot *slot
	// mayPass is true if the request is admitted when it cannot be checked.
	mayPass bool
	// cheap is true if there is no slot for it: only cheap checks run.
	cheap bool
	// authenticated says that the caller has a client certificate of an API server.
	authenticated bool
	// handled is set when a handler gets the request; nil if no intake waits for it.
	handled *bool
}

type admittedKey struct{}

// cheap reports whether only what costs little is to be checked.
func cheap(ctx context.Context) bool {
	a, _ := ctx.Value(admittedKey{}).(admitted)
	return a.cheap
}

// authenticated reports whether the caller is known to be an API server, or is part of this
// program.
func authenticated(ctx context.Context) bool {
	a, remote := ctx.Value(admittedKey{}).(admitted)
	return !remote || a.authenticated
}

// mayPass reports whether a request is admitted that cannot be checked.
func mayPass(ctx context.Context) bool {
	a, _ := ctx.Value(admittedKey{}).(admitted)
	return a.mayPass
}

// uncheckedKey is the audit annotation of requests that are admitted without all checks; its
// value is the reason.
const uncheckedKey = "unchecked"

// timely answers by the deadline of its context, whether next does or not.
type timely struct {
	next     admission.Handler
	endpoint string
	log      logr.Logger
	metrics  *Metrics
}

// Handle returns the answer of the next handler, or a denial if that does not come in time.
func (t timely) Handle(ctx context.Context, req admission.Request) admission.Response {
	a, is := ctx.Value(admittedKey{}).(admitted)
	if !is {
		return t.next.Handle(ctx, req)
	}
	if a.handled != nil {
		*a.handled = true
	}
	answer := make(chan admission.Response, 1)
	a.held.use()
	go func() {
		defer a.held.end()
		answer <- t.recovered(ctx, req)
	}()
	select {
	case response := <-answer:
		if ctx.Err() == nil || !response.Allowed {
			return t.marked(a, response)
		}
	case <-ctx.Done():
	}
	a.slot.overrun()
	return t.late(ctx, a)
}

// marked adds to the answer to a request that only what costs little was checked.
func (t timely) marked(a admitted, response admission.Response) admission.Response {
	if a.cheap && response.Allowed {
		t.metrics.pass(t.endpoint, "busy")
		response.AuditAnnotations = withUnchecked(response.AuditAnnotations, "busy")
	}
	return response
}

func withUnchecked(annotations map[string]string, reason string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[uncheckedKey] = reason
	return annotations
}

// late is the answer to a request whose check takes too long. A client that has given up reads none, and does not count.
func (t timely) late(ctx context.Context, a admitted) admission.Response {
	if errors.Is(ctx.Err(), context.Canceled) {
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: a.mayPass, Result: tooLate()}}
	}
	if a.mayPass {
		return t.metrics.unchecked(t.endpoint, "deadline")
	}
	t.metrics.refuse(t.endpoint, "deadline")
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: tooLate()}}
}

// tooLate is the status of a request that is not checked in time.
func tooLate() *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: named("too expensive to check: dra-steward could not check the object in the time that the API server waits; make the object smaller, or try again later", ruleid.RequestDeadline),
	}
}

// recovered answers a request that makes the next handler panic with an error, and admits one
// that may pass.
func (t timely) recovered(ctx context.Context, req admission.Request) (response admission.Response) {
	defer func() {
		if p := recover(); p != nil {
			t.log.Error(fmt.Errorf("panic: %v", p), "cannot answer a request", "uid", req.UID, "stack", string(debug.Stack()))
			if mayPass(ctx) {
				response = t.metrics.unchecked(t.endpoint, "panic")
				return
			}
			response = admission.Errored(http.StatusInternalServerError, errors.New(named(fmt.Sprintf("panic: %v [recovered]", p), ruleid.RequestError)))
		}
	}()
	return t.next.Handle(ctx, req)
}
