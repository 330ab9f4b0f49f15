package webhook_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// stalled sends what comes before a part of a request, and no more, and returns the answer.
func stalled(t *testing.T, r *running, client *http.Client, path string, req *admissionv1.AdmissionRequest, part string) *admissionv1.AdmissionResponse {
	t.Helper()
	body := reviewOf(t, "v1", req)
	at := bytes.Index(body, []byte(part))
	reader, writer := io.Pipe()
	defer reader.Close()
	go func() { _, _ = writer.Write(body[:at+len(part)]) }()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+r.address+path+"?timeout=1s", reader)
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = int64(len(body))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("HTTP status %d: %s %v", response.StatusCode, answer, err)
	}
	return parse(t, answer).Response
}

// TestSlowBodies: an API server that cannot deliver the object in time gets a denial in a
// review. It ignores any other answer where the failurePolicy is Ignore.
func TestSlowBodies(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.System = isScheduler })
	for _, http2 := range []bool{false, true} {
		for user, test := range map[string]struct {
			req     *admissionv1.AdmissionRequest
			allowed bool
		}{
			"jane":               {create("ResourceClaim", claim(17)), false},
			scheduler:            {create("ResourceClaim", claim(17)), true},
			"system:node:node-1": {create("ResourceSlice", slice(1, 0, 0)), true},
		} {
			got := stalled(t, server, server.newClient(t, http2), "/validate", by(user, "team-a", test.req), `"spec"`)
			switch {
			case got.Allowed != test.allowed || got.UID != test.req.UID:
				t.Errorf("HTTP/2 %t, %s: %+v", http2, user, got)
			case got.Allowed && got.AuditAnnotations["unchecked"] != "deadline":
				t.Errorf("HTTP/2 %t, %s: annotations %v", http2, user, got.AuditAnnotations)
			case !got.Allowed && (got.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Result.Message, "too expensive to check") || !strings.HasSuffix(got.Result.Message, "(dra-steward rule request-deadline)")):
				t.Errorf("HTTP/2 %t, %s: %+v", http2, user, got.Result)
			}
		}
		// The author is not known yet: nothing passes.
		if got := stalled(t, server, server.newClient(t, http2), "/validate", by(scheduler, "team-a", create("ResourceClaim", claim(17))), `"operation"`); got.Allowed {
			t.Errorf("HTTP/2 %t: %+v", http2, got)
		}
	}
	server.lives(t)
}

// TestSlowHeads: the path says that a slice is written before anything else of a request arrives. A
// driver whose request does not arrive in time is not refused.
func TestSlowHeads(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	for path, allowed := range map[string]bool{"/validate/slices": true, "/mutate/slices": true, "/validate": false} {
		for _, http2 := range []bool{false, true} {
			got := stalled(t, server, server.newClient(t, http2), path, by("system:node:node-1", "", create("ResourceSlice", slice(1, 0, 0))), `"kind":{`)
			if got.Allowed != allowed || allowed && got.AuditAnnotations["unchecked"] != "deadline" {
				t.Errorf("%s, HTTP/2 %t: %+v", path, http2, got)
			}
		}
	}
	// The path does not replace the resource that a request names.
	if got := stalled(t, server, server.newClient(t, true), "/validate/slices", by("jane", "team-a", create("ResourceClaim", claim(17))), `"spec"`); got.Allowed {
		t.Errorf("a claim: %+v", got)
	}
	server.lives(t)
}

// TestOurErrorsStopNoComponent: what goes wrong while a write of a component or of a driver is checked
// does not stop them. It is recorded, and denies the writes of all others.
func TestOurErrorsStopNoComponent(t *testing.T) {
	panics := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response { panic("broken") })
	stall := []byte(`"sharedCounters":[{"counters":{"a":{"value":"1e4194967296"}}}],"driver":"gpu.example.com"`)
	badSlice := bytes.Replace(slice(1, 0, 0), []byte(`"driver":"gpu.example.com"`), stall, 1)
	badClaim := bytes.Replace(claim(1), []byte(`"exactly":{`), []byte(`"exactly":{"capacity":{"requests":{"a":"1e-999999999"}},`), 1)
	for name, change := range map[string]func(*webhook.Server){
		"error": nil,
		"panic": func(s *webhook.Server) { s.Validating = panics },
	} {
		server := start(t, review.Reviewer{}, func(s *webhook.Server) {
			s.Bounds.System = isScheduler
			if change != nil {
				change(s)
			}
		})
		for user, test := range map[string]struct {
			req     *admissionv1.AdmissionRequest
			allowed bool
		}{
			"jane":               {create("ResourceClaim", badClaim), false},
			scheduler:            {create("ResourceClaim", badClaim), true},
			"system:node:node-1": {create("ResourceSlice", badSlice), true},
		} {
			got := server.review(t, "/validate", by(user, "team-a", test.req))
			if got.Allowed != test.allowed || got.UID != test.req.UID {
				t.Errorf("%s, %s: %+v", name, user, got)
			}
			if got.Allowed && got.AuditAnnotations["unchecked"] != name {
				t.Errorf("%s, %s: annotations %v", name, user, got.AuditAnnotations)
			}
		}
	}
}
