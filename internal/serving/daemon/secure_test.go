package daemon

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviews is an API server that knows the tokens reader and stranger; of these, reader may
// get /metrics.
func reviews(t *testing.T, asked *atomic.Int64) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			var review authenticationv1.TokenReview
			_ = json.NewDecoder(r.Body).Decode(&review)
			if review.Spec.Token == "outage" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			review.Status.Authenticated = review.Spec.Token == "reader" || review.Spec.Token == "stranger"
			review.Status.User.Username = review.Spec.Token
			_ = json.NewEncoder(w).Encode(review)
			return
		}
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		a := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "reader" && a != nil && a.Path == "/metrics" && a.Verb == "get"
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// TestSecureMetrics: only a token with the right to get the path is let in, by TLS, and the
// API server is asked about it once.
func TestSecureMetrics(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") })
	secure, handler, err := SecureMetrics(true, reviews(t, &asked), listener, page, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(secure) }()
	t.Cleanup(func() { server.Close() })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, c := range []struct {
		header, path string
		want         int
		asked        int64
	}{
		{"", "/metrics", http.StatusUnauthorized, 0},
		{"Basic reader", "/metrics", http.StatusUnauthorized, 0},
		{"Bearer ", "/metrics", http.StatusUnauthorized, 0},
		{"Bearer unknown", "/metrics", http.StatusUnauthorized, 1},
		{"Bearer stranger", "/metrics", http.StatusForbidden, 2},
		{"Bearer outage", "/metrics", http.StatusInternalServerError, 1},
		{"Bearer reader", "/metrics", http.StatusOK, 2},
		{"bearer reader", "/metrics", http.StatusOK, 0},
		{"Bearer reader", "/other", http.StatusForbidden, 2},
	} {
		asked.Store(0)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", c.header)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want || asked.Load() != c.asked {
			t.Errorf("%q %s: %d after %d reviews, want %d after %d", c.header, c.path, response.StatusCode, asked.Load(), c.want, c.asked)
		}
	}
	plain, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	plain.Body.Close()
	if plain.StatusCode != http.StatusBadRequest {
		t.Errorf("by HTTP: %s", plain.Status)
	}
}

// TestOpenMetrics: without the flag, metrics are served as before.
func TestOpenMetrics(t *testing.T) {
	page := http.NotFoundHandler()
	listener, handler, err := SecureMetrics(false, nil, nil, page, logr.Discard())
	if err != nil || listener != nil || handler == nil {
		t.Errorf("got %v, %v, %v", listener, handler, err)
	}
}

// TestTokensOfStrangers is an attack: requests with ever new tokens from one address, whose reviews take up the rate of the
// client. A reader at another address gets the metrics.
func TestTokensOfStrangers(t *testing.T) {
	var asked atomic.Int64
	handler, err := Authorized(reviews(t, &asked), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	get := func(token, from string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	var end atomic.Bool
	var flood sync.WaitGroup
	for i := range 63 { // connections: the limit of one address is 64
		flood.Go(func() {
			for n := 0; !end.Load(); n++ {
				get(fmt.Sprintf("junk-%d-%d", i, n), "10.0.0.66:1000")
			}
		})
	}
	<-time.After(2 * time.Second) // the client has used up its burst
	if code := get("reader", "10.0.0.7:2000"); code != http.StatusOK {
		t.Errorf("a reader gets %d", code)
	}
	end.Store(true)
	flood.Wait()
}
