package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// stock is a server of controller-runtime's webhooks, with the TLS of ours.
func stock(t testing.TB, mutating, validating admission.Handler) *running {
	t.Helper()
	dir := certDir(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, handler := range map[string]admission.Handler{"/mutate": mutating, "/validate": validating} {
		mux.Handle("POST "+path, &admission.Webhook{Handler: handler, LogConstructor: func(_ logr.Logger, req *admission.Request) logr.Logger {
			return admission.DefaultLogConstructor(logr.Discard(), req)
		}})
	}
	server := &http.Server{Handler: mux, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}}
	done := make(chan error, 1)
	go func() {
		done <- server.ServeTLS(listener, filepath.Join(dir, corev1.TLSCertKey), filepath.Join(dir, corev1.TLSPrivateKeyKey))
	}()
	r := &running{Server: &webhook.Server{CertDir: dir}, address: listener.Addr().String()}
	r.client = r.newClient(t, true)
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		server.Close()
		<-done
	})
	return r
}

// TestStockAnswers: whatever is sent, the answer is that of controller-runtime's own
// handler of admission requests: how requests are read and limited changes none, and adds
// the rule where a request is not well-formed.
func TestStockAnswers(t *testing.T) {
	mutating, validating := webhook.Mutating(webhook.Always(review.Reviewer{}), webhook.Options{}), webhook.Validating(webhook.Always(review.Reviewer{}), webhook.Options{})
	ours, theirs := start(t, review.Reviewer{}, nil), stock(t, mutating, validating)
	good := string(reviewOf(t, "v1", create("ResourceClaim", typicalClaim())))
	bodies := map[string]string{
		"empty": "", "null": "null", "list": "[]", "object": "{}", "cut": good[:len(good)/2], "twice": good + good, "blank": " " + good + "\n",
		"v1beta1":         string(reviewOf(t, "v1beta1", create("ResourceClaim", typicalClaim()))),
		"another version": strings.Replace(good, "admission.k8s.io/v1", "admission.k8s.io/v7", 1), "no version": strings.Replace(good, `"apiVersion":"admission.k8s.io/v1",`, "", 1),
		"another kind": strings.Replace(good, "AdmissionReview", "Status", 1), "field twice": strings.Replace(good, `"request":{`, `"request":{"uid":"first",`, 1),
		"case": strings.Replace(good, `"request"`, `"Request"`, 1), "no request": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		"response": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true}}`,
		"bad text": strings.Replace(good, "training", "train\xff", 1), "unknown field": strings.Replace(good, `"request":{`, `"request":{"later":[1,{"a":null}],`, 1),
		"null request": `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`,
		"wrong type":   strings.Replace(good, `"operation":"CREATE"`, `"operation":1`, 1), "escapes": strings.Replace(good, "training", `train\u0069ng`, 1),
	}
	for name, request := range workload() {
		bodies[name] = string(reviewOf(t, "v1", request))
	}
	for name, body := range bodies {
		for _, content := range []string{"application/json", "text/plain"} {
			for _, path := range []string{"/mutate", "/validate"} {
				for _, chunked := range []bool{false, true} {
					var got, want string
					for again := true; again; {
						second := time.Now().Unix() // which both fill in as timeAdded
						got, want = sent(t, ours, path, content, body, chunked), sent(t, theirs, path, content, body, chunked)
						again = time.Now().Unix() != second
					}
					// To an answer that no handler gave, ours adds the rule.
					if got != want && strings.Replace(got, " (dra-steward rule request-error)", "", 1) != want {
						t.Errorf("%s as %s to %s, chunked %t:\ngot  %.300s\nwant %.300s", name, content, path, chunked, got, want)
					}
				}
			}
		}
	}
}

// sent sends a body and returns what comes back.
func sent(t *testing.T, r *running, path, content, body string, chunked bool) string {
	t.Helper()
	var reader io.Reader = bytes.NewReader([]byte(body))
	if chunked {
		reader = io.MultiReader(reader) // of which no length is known
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "https://"+r.address+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", content)
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(response.StatusCode, " ", response.Header.Get("Content-Type"), " ", string(answer))
}
