package webhook

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TestTimely: a check that panics, or that answers when the deadline has passed, denies.
func TestTimely(t *testing.T) {
	for name, tt := range map[string]struct {
		check   admission.HandlerFunc
		allowed bool
		code    int32
	}{
		"in time": {func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }, true, http.StatusOK},
		"panics":  {func(context.Context, admission.Request) admission.Response { panic("broken") }, false, http.StatusInternalServerError},
		"late": {func(ctx context.Context, _ admission.Request) admission.Response {
			<-ctx.Done()
			return admission.Allowed("")
		}, false, http.StatusUnprocessableEntity},
		"late denial": {func(ctx context.Context, _ admission.Request) admission.Response {
			<-ctx.Done()
			return admission.Denied("")
		}, false, 0}, // of the check, or that of the deadline
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if response := answered(ctx, tt.check); response.Allowed != tt.allowed || tt.code != 0 && response.Result.Code != tt.code {
					t.Errorf("got %+v", response)
				}
			})
		})
	}
	admits := func(context.Context, admission.Request) admission.Response { return admission.Allowed("") }
	if response := answered(ended{t.Context()}, admits); response.Allowed {
		t.Error("an answer that comes with the deadline admits")
	}
}

// answered is the answer of a check by the deadline of its context.
func answered(ctx context.Context, check admission.HandlerFunc) admission.Response {
	held := &lease{}
	held.use()
	defer held.end()
	return timely{next: check, log: logr.Discard()}.Handle(context.WithValue(ctx, admittedKey{}, admitted{held: held}), admission.Request{})
}

// ended is a context whose deadline passes when the answer is there.
type ended struct{ context.Context }

func (ended) Done() <-chan struct{} { return nil }
func (ended) Err() error            { return context.DeadlineExceeded }

// TestPodsAreNotOfComponents: a component that creates a pod acts for the author of its
// template, so the pod is not let through as a write of Kubernetes itself.
func TestPodsAreNotOfComponents(t *testing.T) {
	l := newLimiter(Bounds{System: func(user string) bool { return user == "controller" }}, nil)
	for name, tt := range map[string]struct {
		head head
		want class
	}{
		"claim":      {head{user: "controller", resource: "resourceclaims", operation: admissionv1.Create, namespace: "a"}, components},
		"new pod":    {head{user: "controller", resource: "pods", operation: admissionv1.Create, namespace: "a"}, tenants},
		"pod status": {head{user: "controller", resource: "pods", subResource: "status", operation: admissionv1.Create, namespace: "a"}, components},
		"tenant":     {head{user: "jane", resource: "resourceclaims", operation: admissionv1.Create, namespace: "a"}, tenants},
	} {
		if got, _ := l.classOf(false, tt.head); got != tt.want {
			t.Errorf("%s: class %d, want %d", name, got, tt.want)
		}
		if got := l.mayPass(tt.head); got != (tt.want == components) {
			t.Errorf("%s: may pass is %v", name, got)
		}
	}
}
