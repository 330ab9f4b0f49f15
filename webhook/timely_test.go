package webhook

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/review"
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

// TestClientGivesUp: a request whose client has given up counts neither as refused nor as admitted without all checks.
func TestClientGivesUp(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, mayPass := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		held := &resources{}
		held.use()
		handler := timely{log: logr.Discard(), endpoint: "validate", metrics: metrics, next: admission.HandlerFunc(func(ctx context.Context, _ admission.Request) admission.Response {
			cancel()
			<-ctx.Done()
			return admission.Allowed("")
		})}
		handler.Handle(context.WithValue(ctx, admittedKey{}, admitted{held: held, mayPass: mayPass}), admission.Request{})
		held.end()
	}
	if n := testutil.ToFloat64(metrics.refused.WithLabelValues("validate", "deadline")) + testutil.ToFloat64(metrics.passed.WithLabelValues("validate", "deadline")); n != 0 {
		t.Errorf("%v requests count", n)
	}
}

// answered is the answer of a check by the deadline of its context.
func answered(ctx context.Context, check admission.HandlerFunc) admission.Response {
	held := &resources{}
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

// TestBoundsWithoutSlots: a write of a component for which there is no slot is admitted
// without policies, and the audit log says if it exceeds the bounds of policies.
func TestBoundsWithoutSlots(t *testing.T) {
	set, err := policy.Compile(t.Context(), policy.Library())
	if err != nil {
		t.Fatal(err)
	}
	reviewer, err := review.New(v1alpha1.StewardConfiguration{})
	if err != nil {
		t.Fatal(err)
	}
	if reviewer.Policies, err = policy.NewEngine(set, policy.Settings{Limits: policy.Limits{Tolerations: 3}, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithValue(t.Context(), admittedKey{}, admitted{held: &resources{}, mayPass: true, cheap: true})
	check := timely{next: Validating(Always(reviewer), Options{}), log: logr.Discard()}
	for tolerations, want := range map[int]string{
		3: "",
		4: "spec.devices.requests: too expensive to check: 4 tolerations, at most 3 are allowed (policies.limits.tolerations) (dra-steward rule policy-error)",
	} {
		object := `{"metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": [` +
			strings.TrimSuffix(strings.Repeat(`{"operator": "Exists", "effect": "NoSchedule"},`, tolerations), ",") + `]}}]}}}`
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Kind: metav1.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim"}, Operation: admissionv1.Create,
			Namespace: "team", Object: runtime.RawExtension{Raw: []byte(object)},
		}}
		req.UserInfo.Username = "system:kube-scheduler"
		response := check.Handle(ctx, req)
		if said := response.AuditAnnotations["exempted"]; !response.Allowed || response.AuditAnnotations[uncheckedKey] != "busy" || (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("%d tolerations: %t, annotations %v, want %q", tolerations, response.Allowed, response.AuditAnnotations, want)
		}
	}
}
