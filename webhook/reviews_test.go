package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// FuzzDecodeReview: a handler gets the same request, and an API server the same answer, from
// reviews and from controller-runtime.
func FuzzDecodeReview(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[", "\xff", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}} {}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"a"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2","request":{"uid":"a"}}`,
		`{"kind":"Other","apiVersion":"admission.k8s.io/v1","request":{"uid":"a"}}`, `{"request":{"uid":"a"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","Request":{"UID":"a"},"request":{"uid":"a","uid":"b"}}`,
		`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"x","allowed":true},"request":{"uid":"a","kind":{"group":"resource.k8s.io","version":"v1","kind":"ResourceClaim"},
			"resource":{"group":"resource.k8s.io","version":"v1","resource":"resourceclaims"},"requestKind":null,"subResource":"status","name":"n","namespace":"s","operation":"UPDATE",
			"userInfo":{"username":"u","uid":"1","groups":["a","b"],"extra":{"k":["v"],"n":null}},"object": {"a": [1, 2.50, "\ud800"], "b": null} ,"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, contentType := range []string{"application/json", "application/yaml"} {
			ours, got := reviewed(data, contentType, func(w *admission.Webhook) http.Handler { return reviews{w, logr.Discard(), nil} })
			theirs, want := reviewed(data, contentType, func(w *admission.Webhook) http.Handler { return w })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q: another request (- controller-runtime, + reviews): %s", data, diff)
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("%q: another answer (- controller-runtime, + reviews): %s", data, diff)
			}
		}
	})
}

// reviewed returns the answer to a body, and what the handler got; nil if it got nothing.
func reviewed(data []byte, contentType string, serve func(*admission.Webhook) http.Handler) (answer string, got *admissionv1.AdmissionRequest) {
	body := bytes.Clone(data)
	handler := serve(&admission.Webhook{
		LogConstructor: func(logr.Logger, *admission.Request) logr.Logger { return logr.Discard() },
		Handler: admission.HandlerFunc(func(_ context.Context, req admission.Request) admission.Response {
			got = &req.AdmissionRequest
			return admission.Denied("no").WithWarnings("careful")
		}),
	})
	request := httptest.NewRequest(http.MethodPost, "/validate", nil)
	request.Body = received{bytes.NewReader(body), body}
	request.Header.Set("Content-Type", contentType)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	clear(body) // a buffer that is used again
	return recorder.Body.String(), got
}

// TestOrdinaryReviews: a review as API servers send it is decoded in one pass.
func TestOrdinaryReviews(t *testing.T) {
	for version, ordinary := range map[string]bool{"admission.k8s.io/v1": true, "admission.k8s.io/v1beta1": false} {
		review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "a"}}
		review.APIVersion, review.Kind = version, reviewKind
		data, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequest(http.MethodPost, "/validate", nil)
		request.Header.Set("Content-Type", "application/json")
		request.Body = received{bytes.NewReader(data), data}
		if got, is := decodeReview(request); is != ordinary || is && got.UID != "a" {
			t.Errorf("%s: decoded %t, want %t: %v", version, is, ordinary, got)
		}
	}
}
