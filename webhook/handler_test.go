package webhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/pkg/validate"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestAnswersInTheVersionAsked: an API server refuses an answer in another version
// of the admission API, and one without its UID.
func TestAnswersInTheVersionAsked(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	for _, version := range []string{"v1", "v1beta1"} {
		for _, path := range []string{"/mutate", "/validate"} {
			req := create("ResourceClaim", claim(1))
			_, body := server.post(t, path, reviewOf(t, version, req))
			got := parse(t, body)
			if got.APIVersion != "admission.k8s.io/"+version || got.Kind != "AdmissionReview" || got.Response.UID != req.UID || !got.Response.Allowed {
				t.Errorf("%s %s: %s", version, path, body)
			}
		}
	}
}

// TestPatchApplies applies the patch as an API server does.
func TestPatchApplies(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	before := bytes.Replace(claim(2), []byte(`"spec":{`), []byte(`"spec":{"fieldOfTomorrow":[1.50],`), 1)
	got := server.review(t, "/mutate", create("ResourceClaim", before))
	if got.PatchType == nil || *got.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("patch type %v", got.PatchType)
	}
	patch, err := jsonpatch.DecodePatch(got.Patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(before)
	if err != nil {
		t.Fatal(err)
	}
	var stored resourceapi.ResourceClaim
	if err := json.Unmarshal(after, &stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{resourceapi.Finalizer}, stored.Finalizers); diff != "" {
		t.Errorf("finalizers: -want +got:\n%s", diff)
	}
	for _, toleration := range stored.Spec.Devices.Requests[0].Exactly.Tolerations {
		if toleration.Operator != resourceapi.DeviceTolerationOpEqual {
			t.Errorf("operator %q", toleration.Operator)
		}
	}
	if !bytes.Contains(after, []byte(`"fieldOfTomorrow":[1.50]`)) {
		t.Errorf("a field unknown to us is gone or changed: %s", after)
	}
	if again := server.review(t, "/mutate", create("ResourceClaim", after)); again.Patch != nil {
		t.Errorf("asked again, the webhook patches again: %s", again.Patch)
	}
}

func TestDenial(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	got := server.review(t, "/validate", create("ResourceClaim", claim(17)))
	if got.Allowed || got.Result == nil {
		t.Fatalf("17 tolerations pass: %v", got)
	}
	if got.Result.Code != http.StatusUnprocessableEntity || got.Result.Reason != "Invalid" {
		t.Errorf("got %d %s, want the API server's 422 Invalid", got.Result.Code, got.Result.Reason)
	}
	const path = "spec.devices.requests[gpu].exactly.tolerations"
	for _, word := range []string{`ResourceClaim "some"`, path, "must have at most 16", "dra-steward rule request-tolerations-max"} {
		if !strings.Contains(got.Result.Message, word) {
			t.Errorf("the message lacks %q: %s", word, got.Result.Message)
		}
	}
	details := got.Result.Details
	if details == nil || details.Group != "resource.k8s.io" || details.Kind != "ResourceClaim" || details.Name != "some" ||
		len(details.Causes) != 1 || details.Causes[0].Field != path || details.Causes[0].Type != "FieldValueTooMany" ||
		!strings.Contains(details.Causes[0].Message, "dra-steward rule request-tolerations-max") {
		t.Errorf("details: %+v", details)
	}
}

// TestManyFindings: of many bad devices only ten are named, as causes and in the
// message, which people read on a terminal, and two in a warning.
func TestManyFindings(t *testing.T) {
	server := start(t, review.Reviewer{Limits: validate.Limits{TaintsPerDevice: 1}}, nil)
	bad := slice(64, 0, 2)
	got := server.review(t, "/validate", create("ResourceSlice", bad))
	if got.Allowed || len(got.Result.Details.Causes) != 10 {
		t.Fatalf("got %+v, want 10 causes", got.Result)
	}
	if n := strings.Count(got.Result.Message, "device-taints-max"); n != 11 || !strings.HasSuffix(got.Result.Message, "; and 54 more (dra-steward rule device-taints-max)") {
		t.Errorf("the message names the rule %d times: %s", n, got.Result.Message)
	}
	got = server.review(t, "/validate", update("ResourceSlice", bad, bad))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], " and 62 more: ") {
		t.Errorf("an unchanged slice: allowed %t, warnings %q", got.Allowed, got.Warnings)
	}
}

// TestRatcheting: what is stored already only warns, what has grown is denied.
func TestRatcheting(t *testing.T) {
	server := start(t, review.Reviewer{Limits: validate.Limits{DevicesPerSlice: 10}}, nil)
	for _, test := range []struct {
		before, after int
		allowed       bool
		warnings      int
	}{
		{12, 12, true, 1}, {12, 11, true, 1}, {12, 10, true, 0}, {12, 13, false, 0}, {10, 11, false, 0},
	} {
		got := server.review(t, "/validate", update("ResourceSlice", slice(test.before, 1, 0), slice(test.after, 1, 0)))
		if got.Allowed != test.allowed || len(got.Warnings) != test.warnings {
			t.Errorf("from %d to %d devices: allowed %t, warnings %q", test.before, test.after, got.Allowed, got.Warnings)
		}
	}
}

func TestDryRunIsAnsweredAlike(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	for _, object := range [][]byte{claim(3), claim(17)} {
		for _, path := range []string{"/mutate", "/validate"} {
			real, dry := create("ResourceClaim", object), create("ResourceClaim", object)
			dry.DryRun = new(true)
			if diff := cmp.Diff(server.review(t, path, real), server.review(t, path, dry)); diff != "" {
				t.Errorf("%s: -real +dry run:\n%s", path, diff)
			}
		}
	}
}

// TestRemovalIsAllowed: whatever is there may go, be it of a kind that we know or
// not.
func TestRemovalIsAllowed(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	for _, operation := range []admissionv1.Operation{admissionv1.Delete, admissionv1.Connect} {
		for _, kind := range []string{"ResourceClaim", "Widget"} {
			for _, path := range []string{"/mutate", "/validate"} {
				req := create(kind, nil)
				req.Operation, req.OldObject.Raw = operation, claim(17)
				if got := server.review(t, path, req); !got.Allowed || got.Patch != nil {
					t.Errorf("%s %s %s: %v", path, operation, kind, got)
				}
			}
		}
	}
}

// TestStatusOfClaims: the finalizer is not for /status, where the API server would
// discard it, and an allocation without it is refused.
func TestStatusOfClaims(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	allocated := bytes.Replace(claim(1), []byte(`"spec":{`), []byte(`"status":{"allocation":{}},"spec":{`), 1)
	req := update("ResourceClaim", claim(1), allocated)
	req.SubResource = "status"
	if got := server.review(t, "/mutate", req); !got.Allowed || got.Patch != nil {
		t.Errorf("mutate: %v", got)
	}
	if got := server.review(t, "/validate", req); got.Allowed || !strings.Contains(got.Result.Message, "allocation-finalizer") {
		t.Errorf("validate: %v", got)
	}
	req.OldObject.Raw = allocated
	if got := server.review(t, "/validate", req); !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("already allocated: %v", got)
	}
}

// TestBadRequests sends what no API server should send. Each gets an answer that
// says what is wrong, and the server lives.
func TestBadRequests(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	kind := func(group, version, kind, subresource string) []byte {
		req := create(kind, claim(1))
		req.Kind.Group, req.Kind.Version, req.SubResource = group, version, subresource
		return reviewOf(t, "v1", req)
	}
	operation := func(operation admissionv1.Operation) []byte {
		req := create("ResourceClaim", claim(1))
		req.Operation = operation
		return reviewOf(t, "v1", req)
	}
	for _, test := range []struct {
		name string
		body []byte
		code int32
		says string
	}{
		{"no JSON", []byte(`{"kind": "AdmissionReview", `), 400, "unexpected end of JSON"},
		{"another JSON", []byte(`[1, 2]`), 400, "cannot unmarshal array"},
		{"another kind", []byte(`{"apiVersion": "v1", "kind": "Pod"}`), 400, "an AdmissionReview with a request"},
		{"null request", []byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null}`), 400, "operation"},
		{"no request", []byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`), 400, "operation"},
		{"empty operation", operation(""), 400, `operation ""`},
		{"unknown operation", operation("EVICT"), 400, `operation "EVICT"`},
		{"no object", reviewOf(t, "v1", create("ResourceClaim", nil)), 400, "the request has no object"},
		{"null object", reviewOf(t, "v1", create("ResourceClaim", []byte(`null`))), 400, "the request has no object"},
		{"object of another shape", reviewOf(t, "v1", create("ResourceClaim", []byte(`"text"`))), 400, "the object is no v1.ResourceClaim"},
		{"field of another type", reviewOf(t, "v1", create("ResourceClaim", []byte(`{"spec": {"devices": {"requests": {}}}}`))), 400, "the object is no v1.ResourceClaim"},
		{"garbage stored", reviewOf(t, "v1", update("ResourceClaim", []byte(`[]`), claim(17))), 422, "Too many: 17"},
		{"unknown kind", kind("resource.k8s.io", "v1", "ResourceQuota", ""), 422, "has no rules for ResourceQuota.resource.k8s.io"},
		{"other group", kind("apps", "v1", "ResourceClaim", ""), 422, "ResourceClaim.apps"},
		{"old version", kind("resource.k8s.io", "v1beta1", "ResourceClaim", ""), 422, "resource.k8s.io/v1beta1"},
		{"unknown subresource", kind("resource.k8s.io", "v1", "ResourceClaim", "scale"), 422, "ResourceClaim.resource.k8s.io/scale"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, body := server.post(t, "/validate", test.body)
			got := parse(t, body).Response
			if got.Allowed || got.Result == nil || got.Result.Code != test.code || !strings.Contains(got.Result.Message, test.says) {
				t.Errorf("got %s, want %d with %q", body, test.code, test.says)
			}
			server.lives(t)
		})
	}
}

func TestBadHTTP(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	for _, test := range []struct {
		name, method, path, contentType, body string
		status                                int
		says                                  string
	}{
		{"GET", http.MethodGet, "/mutate", "", "", http.StatusMethodNotAllowed, "Method Not Allowed"},
		{"PUT", http.MethodPut, "/validate", "application/json", "{}", http.StatusMethodNotAllowed, "Method Not Allowed"},
		{"other path", http.MethodPost, "/", "application/json", "{}", http.StatusNotFound, "not found"},
		{"other content type", http.MethodPost, "/mutate", "text/plain", "{}", http.StatusOK, "expected application/json (dra-steward rule request-error)"},
		{"no review", http.MethodPost, "/mutate", "application/json", "{", http.StatusOK, "(dra-steward rule request-error)"},
		{"protobuf", http.MethodPost, "/mutate", "application/vnd.kubernetes.protobuf", "k8s\x00", http.StatusOK, "expected application/json"},
		{"empty body", http.MethodPost, "/validate", "application/json", "", http.StatusOK, "is expected (dra-steward rule request-error)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), test.method, "https://"+server.address+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", test.contentType)
			response, err := server.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var body bytes.Buffer
			if _, err := body.ReadFrom(response.Body); err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.status || !strings.Contains(body.String(), test.says) {
				t.Errorf("got %d %s, want %d with %q", response.StatusCode, body.String(), test.status, test.says)
			}
			server.lives(t)
		})
	}
}

// TestHugeBodies: what an API server may send is checked, more gets a clear refusal.
func TestHugeBodies(t *testing.T) {
	// The race detector on a busy machine takes longer than an API server waits.
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.Timeout = 30 * time.Second })
	valid := bytes.Replace(slice(128, 32, 0), []byte(`"metadata":{`),
		fmt.Appendf(nil, `"metadata":{"annotations":{"example.com/notes":%q},`, strings.Repeat("x", 3<<20)), 1)
	for _, path := range []string{"/mutate", "/validate"} {
		if got := server.review(t, path, update("ResourceSlice", valid, valid)); !got.Allowed {
			t.Errorf("%s: a large slice: %v", path, got.Result)
		}
	}
	status, body := server.post(t, "/validate", bytes.Repeat([]byte(" "), 8<<20))
	if got := parse(t, body).Response; got.Allowed || got.Result.Code != http.StatusRequestEntityTooLarge || !strings.Contains(got.Result.Message, "too large") {
		t.Errorf("8 MB: HTTP %d: %s", status, body)
	}
	server.lives(t)
}

// TestSmallRequestHugeWork sends what is small to write and would be large to
// answer: a million taints without a time.
func TestSmallRequestHugeWork(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	many := func(item string) string { return "[" + strings.Repeat(item+",", 1<<20) + item + "]" }
	for kind, spec := range map[string]string{
		"ResourceSlice":         `{"devices": [{"name": "gpu-0", "taints": ` + many("{}") + `}]}`,
		"ResourceClaim":         `{"devices": {"requests": [{"name": "gpu", "exactly": {"tolerations": ` + many("{}") + `}}]}}`,
		"ResourceClaimTemplate": `{"spec": {"devices": {"requests": ` + many("{}") + `}}}`,
	} {
		for _, path := range []string{"/mutate", "/validate"} {
			req := create(kind, []byte(`{"metadata": {"name": "some"}, "spec": `+spec+`}`))
			status, body := server.post(t, path, reviewOf(t, "v1", req))
			if status != http.StatusOK || len(body) > 64<<10 {
				t.Errorf("%s %s: HTTP %d and %d bytes: %.300s", path, kind, status, len(body), body)
			}
		}
	}
}

func TestConcurrentRequests(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.Timeout = time.Minute }) // the machine may be busy
	good, bad := reviewOf(t, "v1", create("ResourceClaim", claim(16))), reviewOf(t, "v1", create("ResourceClaim", claim(17)))
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			body, path := good, "/validate"
			if i%2 == 1 {
				body = bad
			}
			response, err := server.client.Post("https://"+server.address+path, "application/json", bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			var answer admissionv1.AdmissionReview
			if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Response.Allowed != (i%2 == 0) {
				t.Errorf("request %d: %v, %v", i, err, answer.Response)
			}
		})
	}
	all.Wait()
}

// TestNamelessObject: with generateName there is no name yet.
func TestNamelessObject(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	object := bytes.Replace(claim(17), []byte(`"name":"some"`), []byte(`"generateName":"job-"`), 1)
	req := create("ResourceClaim", object)
	req.Object = runtime.RawExtension{Raw: object}
	if got := server.review(t, "/validate", req); got.Allowed || !strings.Contains(got.Result.Message, `"job-*"`) {
		t.Errorf("got %v", got.Result)
	}
}
