package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/webhook"
)

// TestSelfSigned: the authority vouches for every host for a year, the key is for the
// owner only, and what is there is left alone.
func TestSelfSigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "the", "way")
	must(t, webhook.SelfSigned(dir, []string{"dra-steward.svc", "127.0.0.1"}))
	authority, err := os.ReadFile(filepath.Join(dir, webhook.AuthorityFile))
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, corev1.TLSCertKey), filepath.Join(dir, corev1.TLSPrivateKeyKey))
	must(t, err)
	for _, host := range []string{"dra-steward.svc", "127.0.0.1"} {
		for _, now := range []time.Time{time.Now(), time.Now().AddDate(0, 11, 0)} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
				t.Errorf("%s at %s: %v", host, now.Format(time.DateOnly), err)
			}
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "other.svc"}); err == nil {
		t.Error("valid for any host")
	}
	if info, err := os.Stat(filepath.Join(dir, corev1.TLSPrivateKeyKey)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is open to others: %v, %v", info.Mode(), err)
	}

	must(t, webhook.SelfSigned(dir, []string{"another"}))
	again, err := os.ReadFile(filepath.Join(dir, webhook.AuthorityFile))
	must(t, err)
	if diff := cmp.Diff(authority, again); diff != "" {
		t.Error("an existing certificate was replaced")
	}
	if err := webhook.SelfSigned(t.TempDir(), nil); err == nil {
		t.Error("made a certificate without names")
	}
}

// a is the certificate of a test.
type a struct {
	certificate *tls.Certificate
	err         error
}

func (c a) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.certificate, c.err
}

func (c a) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// TestReadyWithACertificate: a server without one, or with one that no API server would
// accept, is not ready, but runs.
func TestReadyWithACertificate(t *testing.T) {
	valid := func(from, to time.Duration) a {
		return a{&tls.Certificate{Leaf: &x509.Certificate{NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to)}}, nil}
	}
	for want, certificate := range map[string]a{
		"":             valid(-time.Hour, time.Hour),
		"no file yet":  {nil, errors.New("no file yet")},
		"expired at":   valid(-2*time.Hour, -time.Hour),
		"is the clock": valid(time.Hour, 2*time.Hour),
	} {
		server := &webhook.Server{Certificate: certificate, Log: logr.Discard()}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- server.Serve(ctx, listener) }()
		eventually(t, "serving", func() error {
			if err := server.Ready(nil); err != nil && strings.Contains(err.Error(), "not serving") {
				return err
			}
			return nil
		})
		if err := server.Ready(nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if certificate.err == nil == server.Expires().IsZero() {
			t.Errorf("expires %v", server.Expires())
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
