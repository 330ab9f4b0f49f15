package webhook_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// site has lists, thresholds and exemptions that a tenant is not meant to know.
const site = `
limits: {tolerationsPerRequest: 7}
policies:
  modes: {DRA-TOL-003: deny, DRA-TOL-005: warn}
  parameters: {DRA-TOL-003: {allowed: [example.com/project-x]}, DRA-TOL-005: {maxSeconds: 1234}}
guard: {thresholds: {pods: 17}}
exemptions:
- {rules: [request-tolerations-max], namespaces: [ml], reason: until project x has moved, expires: "2099-12-31T00:00:00Z"}
driverPods:
  pods: [{namespace: gpu, labels: {app: driver}, names: driver-*, drivers: [gpu.example.com]}]
`

// asked is a request to an endpoint, and what only those read whom the webhook tells details.
type asked struct {
	path string
	req  *admissionv1.AdmissionRequest
	// secret is a part of the full answer, and rule the ID that each answer has; empty if it
	// has none.
	secret, rule string
}

// questions are requests of each kind whose full answer says something about the site or about
// others.
func questions(t *testing.T) map[string]asked {
	t.Helper()
	in := func(namespace string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
		return by("system:serviceaccount:ml:anybody", namespace, req)
	}
	long := strings.Replace(string(claim(1)), `"effect":"NoSchedule"`, `"effect":"NoExecute","tolerationSeconds":9999`, 1)
	rule := create("DeviceTaintRule", []byte(`{"apiVersion":"resource.k8s.io/v1beta2","kind":"DeviceTaintRule","metadata":{"name":"all"},
		"spec":{"deviceSelector":{"driver":"gpu.example.com"},"taint":{"key":"example.com/broken","effect":"NoExecute"}}}`))
	rule.Kind.Version = "v1beta2"
	force := ending(t, "jane", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"}, Spec: corev1.PodSpec{NodeName: "n1"}}, false).AdmissionRequest
	force.Options.Raw = []byte(`{"gracePeriodSeconds":0}`)
	unreadable := force
	unreadable.OldObject = runtime.RawExtension{Raw: []byte(`{"metadata":"project-x"}`)}
	driver := ending(t, "jane", driverPod("driver-a"), false).AdmissionRequest
	policies := create("ConfigMap", []byte(`{}`))
	policies.Kind = metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	of := map[string]asked{
		"limit":           {"/validate", in("other", create("ResourceClaim", claim(8))), "at most 7 items", "request-tolerations-max"},
		"list":            {"/validate", in("other", create("ResourceClaim", claim(1))), "project-x", "DRA-TOL-003"},
		"warning":         {"/validate", in("other", create("ResourceClaim", []byte(long))), "1234", "DRA-TOL-005"},
		"exemption":       {"/validate", in("ml", create("ResourceClaim", claim(8))), "exemptions[0]", ""},
		"threshold":       {"/guard", in("", rule), "17", "DRA-RULE-004"},
		"pods affected":   {"/guard", in("", rule), "99 pods", ""},
		"forced deletion": {"/validate", &force, "with claim gpu", "pod-force-deletion"},
		"error":           {"/validate", &unreadable, "cannot unmarshal", "pod-force-deletion"},
		"driver's pod":    {"/validate", &driver, "ml/gpu of pod train", "driver-pod-in-use"},
		"policies":        {"/validate", in("dra-steward", policies), "project-x is twice", "policy-config-map"},
	}
	for name, a := range of {
		a.req.UID = "8c1f0a4e-0000-4000-8000-5d2c6f0a7b11"
		of[name] = a
	}
	return of
}

// informed is a server that has something to tell.
func informed(t *testing.T, o webhook.Options, change func(*webhook.Server)) *running {
	t.Helper()
	k := knownIDs(t)
	reviewer := k.reviewer(t, v1alpha1.ModeDefault, []byte(site))
	reviewer.Impacts = hits{impact: guard.Impact{Counts: guard.Counts{Pods: 99, Claims: 99, Devices: 99}, Sum: &guard.Sum{}}}
	source := webhook.Always(reviewer)
	validating := webhook.Validating(source, o)
	validating = webhook.PodDeletions(validating, podWorld{}, source, o)
	validating = webhook.DriverPodDeletions(validating, &driverWorld{}, source, o)
	validating = webhook.PolicyConfigMaps(validating, func(context.Context, *corev1.ConfigMap, bool) error {
		return errors.New("project-x is twice in a list")
	}, o)
	return start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Validating, s.Guarding = validating, webhook.Guarding(source, o)
		if change != nil {
			change(s)
		}
	})
}

// TestBriefAnswers: with brief answers, a caller without a client certificate reads fields and
// rules, the same verdict, and nothing of what the site has set or others use.
func TestBriefAnswers(t *testing.T) {
	full, brief := informed(t, webhook.Options{}, nil), informed(t, webhook.Options{Brief: true}, nil)
	for name, a := range questions(t) {
		_, told := full.post(t, a.path, reviewOf(t, "v1", a.req))
		_, got := brief.post(t, a.path, reviewOf(t, "v1", a.req))
		if !strings.Contains(string(told), a.secret) {
			t.Errorf("%s: the full answer lacks %q: %s", name, a.secret, told)
		}
		for _, secret := range []string{a.secret, "project", "exempt", "99", "17", "must "} {
			if strings.Contains(string(got), secret) {
				t.Errorf("%s: the brief answer has %q: %s", name, secret, got)
			}
		}
		if !strings.Contains(string(got), a.rule) {
			t.Errorf("%s: the brief answer does not name %s: %s", name, a.rule, got)
		}
		was, is := parse(t, told).Response, parse(t, got).Response
		if was.Allowed != is.Allowed || !is.Allowed && was.Result.Code != is.Result.Code {
			t.Errorf("%s: full %s, brief %s", name, told, got)
		}
	}
}

// TestBriefAnswersNameTheField: an author who reads a brief answer finds the place and the rule.
func TestBriefAnswersNameTheField(t *testing.T) {
	got := informed(t, webhook.Options{Brief: true}, nil).review(t, "/validate", by("jane", "other", create("ResourceClaim", claim(8))))
	const want = `spec.devices.requests[gpu].exactly.tolerations: violates the rule; details are not shown (dra-steward rule request-tolerations-max)`
	if got.Allowed || !strings.Contains(got.Result.Message, want) || got.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("got %+v, want %q", got.Result, want)
	}
}

// TestBriefAnswersToStrangersOnly: an API server with a client certificate reads everything.
func TestBriefAnswersToStrangersOnly(t *testing.T) {
	file, trusted := authority(t, "cluster")
	server := informed(t, webhook.Options{Brief: true}, func(s *webhook.Server) { s.ClientCA = file })
	server.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{trusted}
	for name, a := range questions(t) {
		want := a.secret
		if name == "exemption" {
			want = "until project x has moved"
		}
		if _, got := server.post(t, a.path, reviewOf(t, "v1", a.req)); !strings.Contains(string(got), want) {
			t.Errorf("%s: %s lacks %q", name, got, want)
		}
	}
}
