package webhook_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

const scheduler = "system:kube-scheduler"

// by is a request of a user in a namespace.
func by(user, namespace string, req *admissionv1.AdmissionRequest) *admissionv1.AdmissionRequest {
	req.UserInfo.Username, req.Namespace = user, namespace
	req.Resource.Group, req.Resource.Version, req.Resource.Resource = "resource.k8s.io", "v1", strings.ToLower(req.Kind.Kind)+"s"
	return req
}

func isScheduler(user string) bool { return user == scheduler }

// blocking is a server whose validation of objects named "some" waits for the end of the
// test, whatever its context says.
func blocking(t *testing.T, bounds webhook.Bounds) *running {
	t.Helper()
	release := make(chan struct{})
	bounds.System = isScheduler
	r := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Bounds = bounds
		s.Validating = admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			<-release
			return admission.Allowed("")
		})
	})
	t.Cleanup(func() { close(release) })
	return r
}

// TestDeadline: the answer comes before API servers stop waiting, though the check goes on.
func TestDeadline(t *testing.T) {
	release, ends := make(chan struct{}), make(chan time.Duration, 3)
	server := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Bounds = webhook.Bounds{Timeout: time.Minute, System: isScheduler}
		s.Validating = admission.HandlerFunc(func(ctx context.Context, _ admission.Request) admission.Response {
			end, _ := ctx.Deadline()
			ends <- time.Until(end)
			<-release
			return admission.Allowed("")
		})
	})
	t.Cleanup(func() { close(release) })
	for user, test := range map[string]struct {
		req     *admissionv1.AdmissionRequest
		allowed bool
	}{
		"jane":               {create("ResourceClaim", claim(1)), false},
		scheduler:            {create("ResourceClaim", claim(1)), true},
		"system:node:node-1": {create("ResourceSlice", slice(1, 0, 0)), true},
	} {
		start := time.Now()
		got := server.review(t, "/validate"+"?timeout=1s", by(user, "team-a", test.req))
		if took, left := time.Since(start), <-ends; took < 400*time.Millisecond || took > 30*time.Second || left >= time.Second {
			t.Errorf("%s: answered after %v, at the latest after %v", user, took, left)
		}
		if got.Allowed != test.allowed || got.UID != test.req.UID {
			t.Errorf("%s: %+v", user, got)
		}
		if !got.Allowed && (got.Result.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Result.Message, "too expensive to check")) {
			t.Errorf("%s: %+v", user, got.Result)
		}
		if got.Allowed && got.AuditAnnotations["unchecked"] != "deadline" {
			t.Errorf("%s: annotations %v", user, got.AuditAnnotations)
		}
	}
}

// TestBusy: while the requests of a namespace take all of its slots, more are refused in
// time and without a time to wait; those of other namespaces, components and drivers are
// not.
func TestBusy(t *testing.T) {
	server := blocking(t, webhook.Bounds{Slots: 4, Timeout: time.Minute})
	var flood sync.WaitGroup
	defer flood.Wait()
	for range 3 {
		flood.Go(func() {
			server.review(t, "/validate?timeout=2s", by("jane", "team-a", create("ResourceClaim", claim(1))))
		})
	}
	eventually(t, "busy", func() error {
		got := server.review(t, "/validate"+"?timeout=100ms", by("jane", "team-a", create("ResourceClaim", claim(1))))
		if got.Allowed || got.Result.Code != http.StatusTooManyRequests || got.Result.Reason != "TooManyRequests" || got.Result.Details != nil {
			return fmt.Errorf("%+v", got.Result)
		}
		return nil
	})
	// The mutating endpoint has handlers that do not wait.
	if got := server.review(t, "/mutate"+"?timeout=100ms", by("jane", "team-a", create("ResourceClaim", claim(1)))); got.Allowed {
		t.Error("the slots are those of one endpoint only")
	}
	for user, req := range map[string]*admissionv1.AdmissionRequest{
		"joe": create("ResourceClaim", claim(1)), scheduler: create("ResourceClaim", claim(1)), "driver": create("ResourceSlice", slice(1, 0, 0)),
	} {
		if got := server.review(t, "/mutate", by(user, "team-b", req)); !got.Allowed || got.AuditAnnotations["unchecked"] != "" {
			t.Errorf("%s: %+v", user, got)
		}
	}
}

// TestComponentsAreNeverBusy: beyond the slots of components their requests are admitted,
// and marked.
func TestComponentsAreNeverBusy(t *testing.T) {
	server := blocking(t, webhook.Bounds{Timeout: time.Minute})
	var flood sync.WaitGroup
	defer flood.Wait()
	for range 2 {
		flood.Go(func() {
			server.review(t, "/validate?timeout=2s", by(scheduler, "team-a", create("ResourceClaim", claim(1))))
		})
	}
	eventually(t, "busy", func() error {
		got := server.review(t, "/mutate"+"?timeout=100ms", by(scheduler, "team-a", create("ResourceClaim", claim(1))))
		if !got.Allowed {
			t.Fatalf("%+v", got.Result)
		}
		if got.AuditAnnotations["unchecked"] != "busy" {
			return fmt.Errorf("annotations %v", got.AuditAnnotations)
		}
		return nil
	})
}

// TestTenants: namespaces of one tenant share the slots of one.
func TestTenants(t *testing.T) {
	server := blocking(t, webhook.Bounds{Slots: 4, Timeout: time.Minute, Tenant: func(namespace string) string {
		return strings.TrimRight(namespace, "0123456789")
	}})
	var flood sync.WaitGroup
	defer flood.Wait()
	for i := range 3 {
		flood.Go(func() {
			server.review(t, "/validate?timeout=2s", by("jane", fmt.Sprint("a", i), create("ResourceClaim", claim(1))))
		})
	}
	eventually(t, "busy", func() error {
		if got := server.review(t, "/mutate"+"?timeout=1s", by("jane", "a3", create("ResourceClaim", claim(1)))); got.Allowed {
			return errNotYet
		}
		return nil
	})
	if got := server.review(t, "/mutate", by("jane", "b1", create("ResourceClaim", claim(1)))); !got.Allowed {
		t.Errorf("another tenant: %+v", got.Result)
	}
}

// TestBodiesInFlight: bodies that have no room are refused with an answer that API servers
// take for a denial; small ones, and those of components and drivers, pass.
func TestBodiesInFlight(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Bounds = webhook.Bounds{Bytes: 1 << 20, System: isScheduler}
	})
	large := bytes.Replace(claim(1), []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"annotations":{"example.com/notes":%q},`, strings.Repeat("x", 1<<20)), 1)
	for _, http2 := range []bool{false, true} {
		server.client = server.newClient(t, http2)
		got := server.review(t, "/validate", by("jane", "team-a", create("ResourceClaim", large)))
		if got.Allowed || got.UID == "" || got.Result.Code != http.StatusTooManyRequests {
			t.Errorf("a large claim: %+v", got)
		}
		got = server.review(t, "/validate", by(scheduler, "team-a", create("ResourceClaim", large)))
		if !got.Allowed || got.AuditAnnotations["unchecked"] != "busy" {
			t.Errorf("a large claim of the scheduler: %+v", got)
		}
		if got := server.review(t, "/validate", by("jane", "team-a", create("ResourceClaim", claim(1)))); !got.Allowed {
			t.Errorf("a small claim: %+v", got)
		}
	}
}

// TestTooLarge: what is larger than any object is denied, not failed: an API server ignores
// failures.
func TestTooLarge(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.System = isScheduler })
	huge := bytes.Replace(claim(1), []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"annotations":{"example.com/notes":%q},`, strings.Repeat("x", 8<<20)), 1)
	for _, http2 := range []bool{false, true} {
		server.client = server.newClient(t, http2)
		for user, allowed := range map[string]bool{"jane": false, scheduler: true} {
			got := server.review(t, "/validate", by(user, "team-a", create("ResourceClaim", huge)))
			if got.Allowed != allowed || got.UID == "" || !allowed && got.Result.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %+v", user, got)
			}
		}
	}
}

// dial opens a TLS connection from an address of this host.
func dial(t *testing.T, server *running, from string, protocols ...string) (*tls.Conn, error) {
	t.Helper()
	config := server.client.Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = protocols
	dialer := &tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}, Config: config}
	connection, err := dialer.DialContext(t.Context(), "tcp", server.address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { connection.Close() })
	return connection.(*tls.Conn), nil
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestStalledBodies: 150 connections that announce 4 MiB and send little take little memory,
// and do not keep others waiting; they are cut.
func TestStalledBodies(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	server.lives(t)
	before := heap()
	var stalled []*tls.Conn
	for range 150 {
		connection, err := dial(t, server, "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(connection, "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", 4<<20)
		stalled = append(stalled, connection)
	}
	server.lives(t)
	if grown := int64(heap()) - int64(before); grown > 24<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	start := time.Now()
	for _, connection := range stalled {
		if _, err := io.Copy(io.Discard, connection); err != nil {
			t.Logf("cut: %v", err)
		}
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("cut after %v", took)
	}
	server.lives(t)
}

// TestFillingBodies: connections that do send what they announce, but the last byte, get no
// more memory than there is, and those of another address are served.
func TestFillingBodies(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.Bytes = 12 << 20 })
	server.lives(t)
	before := heap()
	var sent sync.WaitGroup
	chunk := bytes.Repeat([]byte(" "), 64<<10)
	for range 60 {
		connection, err := dial(t, server, "127.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		sent.Go(func() {
			fmt.Fprintf(connection, "POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", 4<<20)
			for range 60 {
				if _, err := connection.Write(chunk); err != nil {
					return
				}
			}
		})
	}
	large := bytes.Replace(claim(1), []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"annotations":{"example.com/notes":%q},`, strings.Repeat("x", 200<<10)), 1)
	for range 5 {
		if got := server.review(t, "/validate", by("jane", "team-a", create("ResourceClaim", large))); !got.Allowed {
			t.Errorf("a claim from another address: %+v", got.Result)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 40<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	sent.Wait()
}

// TestConnections: one address that opens connections has no more than there is room for, and does not keep others out.
func TestConnections(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.Bounds.Bytes = 1 << 20 })
	var open atomic.Int32
	var reading sync.WaitGroup
	for range 96 {
		connection, err := dial(t, server, "127.0.0.2")
		if err != nil {
			continue
		}
		reading.Go(func() {
			_ = connection.SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, err := connection.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				open.Add(1)
			}
		})
	}
	server.lives(t)
	reading.Wait()
	if n := open.Load(); n < 16 || n > 32 {
		t.Errorf("%d connections of an address are open, want about 32", n)
	}
}

// TestRapidReset: streams that are opened and reset do not pile up.
func TestRapidReset(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	before := runtime.NumGoroutine()
	connection, err := dial(t, server, "127.0.0.2", "h2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(connection, connection)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/validate"}, {"content-type", "application/json"}} {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	err = framer.WriteSettings()
	most := 0
	for i := uint32(0); i < 20000 && err == nil; i++ {
		if err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndHeaders: true}); err == nil {
			err = framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
		most = max(most, runtime.NumGoroutine()-before)
	}
	if most > 500 {
		t.Errorf("%d goroutines", most)
	}
	server.lives(t)
}

// TestCompressedBodies: nothing is decompressed.
func TestCompressedBodies(t *testing.T) {
	server := start(t, review.Reviewer{}, nil)
	var body bytes.Buffer
	writer := gzip.NewWriter(&body)
	if _, err := writer.Write(bytes.Repeat([]byte(" "), 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+server.address+"/validate", &body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Encoding", "gzip")
	response, err := server.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := parse(t, answer).Response; got.Allowed || got.Result.Code != http.StatusBadRequest {
		t.Errorf("%s", answer)
	}
}
