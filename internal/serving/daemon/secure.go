package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/internal/serving/connections"
	"github.com/dra-steward/dra-steward/internal/serving/fairqueue"
	"github.com/dra-steward/dra-steward/internal/serving/selfsigned"
)

const (
	// reviewTimeout is how long the API server has to review a token and its rights.
	reviewTimeout = 10 * time.Second
	// reviewed is how long a token is let in without another review.
	reviewed = time.Minute
)

// SecureFlag adds the flag that protects metrics.
func SecureFlag(f *pflag.FlagSet, secure *bool) {
	f.BoolVar(secure, "metrics-secure", false, "serve metrics by HTTPS with a self-signed certificate, and /metrics only to users who may get that path; the API server reviews their tokens")
}

// Authorized returns a handler that answers only users whom the API server authenticates by
// their bearer token and lets get the path. The client's rate bounds what other callers cost
// the API server.
func Authorized(config *rest.Config, next http.Handler, log logr.Logger) (http.Handler, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &authorized{client: client, known: cache.NewExpiring(), next: next, log: log.WithName("metrics"), reviews: fairqueue.Queue{Slots: 4, Waiting: peers}}, nil
}

type authorized struct {
	client kubernetes.Interface
	known  *cache.Expiring // by hash of token and path; only what was let in
	next   http.Handler
	log    logr.Logger
	// reviews are shared by address: the client's rate would let those of one keep out all others.
	reviews fairqueue.Queue
}

func (a *authorized) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		http.Error(w, "Unauthorized: a bearer token is required", http.StatusUnauthorized)
		return
	}
	key := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + " " + token))
	if _, known := a.known.Get(key); known {
		a.next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	release, err := a.reviews.Acquire(ctx, reviewTimeout, connections.Address(r.RemoteAddr))
	if err != nil {
		http.Error(w, "too many requests with new tokens: try again", http.StatusServiceUnavailable)
		return
	}
	status, err := a.review(ctx, token, r)
	release()
	switch {
	case err != nil:
		a.log.Error(err, "cannot review who reads metrics", "address", r.RemoteAddr)
		http.Error(w, "cannot review the token", http.StatusInternalServerError)
	case status != http.StatusOK:
		http.Error(w, http.StatusText(status), status)
	default:
		a.known.Set(key, nil, reviewed)
		a.next.ServeHTTP(w, r)
	}
}

// review returns the status of the answer to a request with a token.
func (a *authorized) review(ctx context.Context, token string, r *http.Request) (int, error) {
	who, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the rights of %s: %w", user.Username, err)
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// SelfSigned makes a listener accept TLS with a certificate of its own. Clients cannot verify
// it; it keeps their tokens from others who listen. A nil listener stays nil.
func SelfSigned(listener net.Listener) (net.Listener, error) {
	if listener == nil {
		return nil, nil
	}
	made, err := selfsigned.Make(selfsigned.Options{Hosts: []string{"localhost", "127.0.0.1"}, Now: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("certificate for metrics: %w", err)
	}
	certificate, err := tls.X509KeyPair(made.Chain(), made.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate for metrics: %w", err)
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}), nil
}

// SecureMetrics is SelfSigned and Authorized where secure, and otherwise neither.
func SecureMetrics(secure bool, config *rest.Config, listener net.Listener, metrics http.Handler, log logr.Logger) (net.Listener, http.Handler, error) {
	if !secure {
		return listener, metrics, nil
	}
	listener, err := SelfSigned(listener)
	if err != nil {
		return nil, nil, err
	}
	metrics, err = Authorized(config, metrics, log)
	return listener, metrics, err
}
