package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// running is a server behind a real listener with TLS, and a client that trusts it.
type running struct {
	*webhook.Server
	address string
	client  *http.Client
	// stop ends the server's context and wait returns how Serve ended.
	stop func()
	wait func() error
}

// start runs a server that checks as reviewer says, or with the handlers that change sets.
func start(t testing.TB, reviewer review.Reviewer, change func(*webhook.Server)) *running {
	t.Helper()
	server := &webhook.Server{
		Mutating:   webhook.Mutating(webhook.Always(reviewer), webhook.Options{}),
		Validating: webhook.Validating(webhook.Always(reviewer), webhook.Options{}),
		CertDir:    certDir(t),
		Log:        logr.Discard(),
	}
	if change != nil {
		change(server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, listener) }()
	r := &running{
		Server: server, address: listener.Addr().String(), stop: stop,
		wait: sync.OnceValue(func() error { return <-done }),
	}
	r.client = r.newClient(t, true)
	eventually(t, "ready", func() error { return server.Ready(nil) })
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		stop()
		if err := r.wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return r
}

// certDir returns a folder with a certificate for 127.0.0.1. Making the keys takes
// some time, so that all folders are copies of one.
func certDir(t testing.TB) string {
	t.Helper()
	files, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var certificate = sync.OnceValues(newCertificate)

func newCertificate() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "webhook-test")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := webhook.SelfSigned(dir, []string{"127.0.0.1"}); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range []string{webhook.AuthorityFile, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// newClient returns a client with connections of its own.
func (r *running) newClient(t testing.TB, http2 bool) *http.Client {
	t.Helper()
	authority, err := os.ReadFile(filepath.Join(r.CertDir, webhook.AuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2:   http2,
		MaxIdleConnsPerHost: 64,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// post sends body and returns the status and body of the answer.
func (r *running) post(t testing.TB, path string, body []byte) (int, []byte) {
	t.Helper()
	response, err := r.client.Post("https://"+r.address+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// review sends a request and returns the answer to it.
func (r *running) review(t testing.TB, path string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	status, body := r.post(t, path, reviewOf(t, "v1", req))
	if status != http.StatusOK {
		t.Fatalf("HTTP status %d: %s", status, body)
	}
	return parse(t, body).Response
}

func parse(t testing.TB, body []byte) admissionv1.AdmissionReview {
	t.Helper()
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &answer); err != nil || answer.Response == nil {
		t.Fatalf("no admission response (%v): %.300s", err, body)
	}
	return answer
}

// lives fails the test unless the server answers an ordinary request.
func (r *running) lives(t *testing.T) {
	t.Helper()
	if got := r.review(t, "/validate", create("ResourceClaim", claim(3))); !got.Allowed {
		t.Errorf("a good claim is refused afterwards: %v", got.Result)
	}
}

func reviewOf(t testing.TB, version string, req *admissionv1.AdmissionRequest) []byte {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/" + version, Kind: "AdmissionReview"},
		Request:  req,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func create(kind string, object []byte) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID:       "8c1f0a4e-0000-4000-8000-5d2c6f0a7b11",
		Kind:      metav1.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: kind},
		Operation: admissionv1.Create,
		Object:    runtime.RawExtension{Raw: object},
	}
}

func update(kind string, old, object []byte) *admissionv1.AdmissionRequest {
	req := create(kind, object)
	req.Operation, req.OldObject.Raw = admissionv1.Update, old
	return req
}

// eventually polls until check returns nil.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline, tick := time.After(2*time.Minute), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not %s within 2 minutes: %v", what, err)
		}
	}
}

// claim is a claim with one request and n tolerations without an operator.
func claim(n int) []byte {
	tolerations := []map[string]any{}
	for i := range n {
		tolerations = append(tolerations, map[string]any{"key": fmt.Sprintf("example.com/taint-%d", i), "effect": "NoSchedule"})
	}
	return object("ResourceClaim", map[string]any{"devices": map[string]any{"requests": []any{map[string]any{
		"name":    "gpu",
		"exactly": map[string]any{"deviceClassName": "gpu.example.com", "tolerations": tolerations},
	}}}})
}

// slice is a slice whose devices have attributes of the length of real ones, and
// taints.
func slice(devices, attributes, taints int) []byte {
	list := []any{}
	for i := range devices {
		values := map[string]any{}
		for j := range attributes {
			values[fmt.Sprintf("attribute%d", j)] = map[string]any{"string": fmt.Sprintf("value-%d-of-device-%d", j, i)}
		}
		device := map[string]any{"name": fmt.Sprintf("gpu-%d", i), "attributes": values}
		if taints > 0 {
			device["taints"] = taintList(taints)
		}
		list = append(list, device)
	}
	return object("ResourceSlice", map[string]any{
		"driver": "gpu.example.com", "nodeName": "worker-1",
		"pool":    map[string]any{"name": "worker-1", "generation": 1, "resourceSliceCount": 1},
		"devices": list,
	})
}

func taintList(n int) (list []any) {
	for i := range n {
		list = append(list, map[string]any{"key": fmt.Sprintf("example.com/taint-%d", i), "effect": "NoSchedule"})
	}
	return list
}

func object(kind string, spec map[string]any) []byte {
	data, err := json.Marshal(map[string]any{
		"apiVersion": "resource.k8s.io/v1", "kind": kind,
		"metadata": map[string]any{"name": "some", "namespace": "team-a"},
		"spec":     spec,
	})
	if err != nil {
		panic(err)
	}
	return data
}

var errNotYet = errors.New("not yet")
