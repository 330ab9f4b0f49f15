package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

func protocol(http2 bool) string {
	if http2 {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// load sends requests until it is stopped, or until no connection can be opened. A request
// that was written and not answered is an error of the test.
type load struct {
	answered atomic.Int64
	senders  sync.WaitGroup
}

func (l *load) start(t *testing.T, r *running, http2 bool, senders int, stop <-chan struct{}) {
	t.Helper()
	client, body := r.newClient(t, http2), reviewOf(t, "v1", create("ResourceClaim", claim(3)))
	for range senders {
		l.senders.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				written, err := send(client, r.address, body)
				switch {
				case err == nil:
					l.answered.Add(1)
				case written:
					t.Errorf("%s: a request was sent and not answered: %v", protocol(http2), err)
					return
				default:
					return // the server does not listen any more
				}
			}
		})
	}
}

// send reports, besides how the request ended, whether the whole of it was written.
// A client writes it again on another connection where the server says that it has
// not accepted it (GOAWAY).
func send(client *http.Client, address string, body []byte) (written bool, _ error) {
	var wrote atomic.Bool
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GetConn:      func(string) { wrote.Store(false) },
		WroteRequest: func(info httptrace.WroteRequestInfo) { wrote.Store(info.Err == nil) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/validate", bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := client.Do(req)
	if err != nil {
		return wrote.Load(), err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && !bytes.Contains(answer, []byte(`"allowed":true`)) {
		err = fmt.Errorf("answer: %s", answer)
	}
	return true, err
}

// TestStopUnderLoad: nothing that a client could send is lost, neither by HTTP/1.1,
// where a kept connection ends silently, nor by HTTP/2.
func TestStopUnderLoad(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(protocol(http2), func(t *testing.T) {
			server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.ShutdownDelay = 500 * time.Millisecond })
			var load load
			load.start(t, server, http2, 8, nil)
			eventually(t, "under load", func() error { return atLeast(&load.answered, 200) })
			server.stop()
			load.senders.Wait()
			if err := server.wait(); err != nil {
				t.Error(err)
			}
			if server.Ready(nil) == nil {
				t.Error("ready after the end")
			}
		})
	}
}

func atLeast(n *atomic.Int64, want int64) error {
	if got := n.Load(); got < want {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}

// TestRequestsInFlightAreAnswered holds requests in the handler while the server
// stops, without any delay.
func TestRequestsInFlightAreAnswered(t *testing.T) {
	const each = 5
	arrived, release := make(chan struct{}, 2*each), make(chan struct{})
	server := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Bounds = webhook.Bounds{Slots: 4 * each, Timeout: time.Minute}
		s.Validating = admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			arrived <- struct{}{}
			<-release
			return admission.Allowed("")
		})
	})
	var sent sync.WaitGroup
	body := reviewOf(t, "v1", create("ResourceClaim", claim(1)))
	for _, http2 := range []bool{false, true} {
		client := server.newClient(t, http2)
		for range each {
			sent.Go(func() {
				if _, err := send(client, server.address, body); err != nil {
					t.Errorf("%s: %v", protocol(http2), err)
				}
			})
		}
	}
	for range 2 * each {
		<-arrived
	}
	server.stop()
	eventually(t, "closed to new connections", func() error {
		connection, err := net.Dial("tcp", server.address)
		if err != nil {
			return nil
		}
		connection.Close()
		return errNotYet
	})
	close(release)
	sent.Wait()
	if err := server.wait(); err != nil {
		t.Error(err)
	}
}

// TestReadinessFailsFirst: while the API servers learn that the server is going,
// their requests are answered, and kept connections are ended with the answer.
func TestReadinessFailsFirst(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) { s.ShutdownDelay = 5 * time.Second })
	server.lives(t)
	server.stop()
	eventually(t, "unready", func() error {
		if server.Ready(nil) == nil {
			return errNotYet
		}
		return nil
	})
	body := reviewOf(t, "v1", create("ResourceClaim", claim(1)))
	for range 5 {
		for _, http2 := range []bool{false, true} {
			if _, err := send(server.newClient(t, http2), server.address, body); err != nil {
				t.Fatalf("%s: %v", protocol(http2), err)
			}
		}
	}
	response, err := server.newClient(t, false).Post("https://"+server.address+"/validate", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if !response.Close {
		t.Error("the connection is not announced to close")
	}
}

func TestMissingCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &webhook.Server{CertDir: dir, Log: logr.Discard()}
	err = server.Serve(t.Context(), listener)
	for _, word := range []string{dir, "tls.crt", "tls.key", "--self-signed"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not say %q: %v", word, err)
		}
	}
	if server.Ready(nil) == nil {
		t.Error("ready without a certificate")
	}
	if _, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
}

// TestListenerFails: a server that cannot go on says so instead of hanging.
func TestListenerFails(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	server := &webhook.Server{CertDir: certDir(t), Log: logr.Discard(), ShutdownDelay: time.Hour}
	if err := server.Serve(t.Context(), listener); err == nil {
		t.Error("no error from a closed listener")
	}
	if server.Ready(nil) == nil {
		t.Error("ready without a listener")
	}
}

// TestCertificateRenewal swaps the certificate under load. No request fails, and the
// new certificate is served without a restart.
func TestCertificateRenewal(t *testing.T) {
	for name, layout := range map[string]struct {
		prepare, renew func(*testing.T, string, map[string][]byte)
	}{
		"each file is replaced":       {func(*testing.T, string, map[string][]byte) {}, replaceFiles},
		"as the kubelet does Secrets": {mountSecret, mountSecret},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := certificate()
			if err != nil {
				t.Fatal(err)
			}
			renewed, err := newCertificate()
			if err != nil {
				t.Fatal(err)
			}
			server := start(t, review.Reviewer{}, func(s *webhook.Server) { layout.prepare(t, s.CertDir, first) })
			underRenewal(t, server, func() { layout.renew(t, server.CertDir, renewed) })
		})
	}
}

func underRenewal(t *testing.T, server *running, renew func()) {
	t.Helper()
	before := served(t, server)
	var load load
	stop := make(chan struct{})
	for _, http2 := range []bool{false, true} {
		load.start(t, server, http2, 2, stop)
	}
	eventually(t, "under load", func() error { return atLeast(&load.answered, 50) })
	renew()
	eventually(t, "served with the new certificate", func() error {
		if bytes.Equal(served(t, server), before) {
			return errNotYet
		}
		return nil
	})
	after := load.answered.Load()
	eventually(t, "under load with the new certificate", func() error { return atLeast(&load.answered, after+50) })
	close(stop)
	load.senders.Wait()
}

func replaceFiles(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path+".new", files[name], 0o600), os.Rename(path+".new", path))
	}
}

// mountSecret puts files into dir as the kubelet mounts a Secret: the names are links
// through the link ..data to a folder of this version, and ..data is swapped.
func mountSecret(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	data := filepath.Join(dir, "..data")
	last, _ := os.Readlink(data)
	version, err := os.MkdirTemp(dir, "..version")
	must(t, err)
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		must(t, os.WriteFile(filepath.Join(version, name), files[name], 0o600))
	}
	must(t, os.Symlink(filepath.Base(version), data+"_tmp"), os.Rename(data+"_tmp", data))
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} {
		path := filepath.Join(dir, name)
		if last == "" {
			must(t, os.Remove(path), os.Symlink(filepath.Join("..data", name), path))
		}
	}
	if last != "" {
		must(t, os.RemoveAll(filepath.Join(dir, last)))
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// served returns the leaf certificate of a new connection.
func served(t *testing.T, r *running) []byte {
	t.Helper()
	connection, err := tls.Dial("tcp", r.address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].Raw
}
