package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// TestMadeUpKinds: a caller that names kinds makes no series of metrics of them.
func TestMadeUpKinds(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics, err := webhook.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	server := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Pods = webhook.ExtendedResources(webhook.Always(review.Reviewer{}), webhook.Options{Metrics: metrics})
		s.Validating = webhook.PodDeletions(s.Validating, podWorld{}, webhook.Always(review.Reviewer{}), webhook.Options{Metrics: metrics})
	})
	before, _ := testutil.GatherAndCount(registry)
	for i := range 100 {
		req := create(fmt.Sprint("Kind", i), []byte(`{}`))
		if got := server.review(t, "/pods", req); got.Allowed {
			t.Fatalf("%+v", got)
		}
		del := create(fmt.Sprint("Del", i), nil)
		del.Operation, del.OldObject.Raw, del.Options.Raw = admissionv1.Delete, []byte(`{}`), []byte(`{}`)
		del.Resource = metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
		if got := server.review(t, "/validate", del); !got.Allowed {
			t.Fatalf("%+v", got)
		}
	}
	if after, _ := testutil.GatherAndCount(registry); after > before+4 {
		t.Errorf("%d series before, %d after", before, after)
	}
}

// TestForgedNamespaces: a caller that makes up a namespace and a user for each request does not have requests of
// other addresses refused.
func TestForgedNamespaces(t *testing.T) {
	server := start(t, review.Reviewer{}, func(s *webhook.Server) {
		s.Bounds = webhook.Bounds{Slots: 4, Timeout: 10 * time.Second}
		slow := admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
			<-time.After(100 * time.Millisecond) // what a costly claim costs
			return admission.Allowed("")
		})
		s.Validating, s.Guarding = slow, slow
	})
	authority, err := os.ReadFile(filepath.Join(server.CertDir, webhook.AuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	stranger := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for i := range 400 {
		flood.Go(func() {
			for j := 0; ctx.Err() == nil; j++ {
				path := []string{"/validate", "/guard"}[i%2]
				body := reviewOf(t, "v1", by(fmt.Sprint("user-", i, j), fmt.Sprint("made-up-", i, "-", j), create("ResourceClaim", []byte(`{}`))))
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server.address+path, bytes.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				if got, err := stranger.Do(req); err == nil {
					got.Body.Close()
				}
			}
		})
	}
	<-time.After(2 * time.Second)
	for _, path := range []string{"/validate", "/guard"} {
		refused := 0
		for range 10 {
			got := server.review(t, path+"?timeout=10s", by("jane", "team-a", create("ResourceClaim", claim(1))))
			if !got.Allowed {
				refused++
			}
		}
		if refused > 0 {
			t.Errorf("%s: %d of 10 requests of another address are refused", path, refused)
		}
	}
	cancel()
	flood.Wait()
}
