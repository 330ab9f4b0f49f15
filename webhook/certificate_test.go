package webhook_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, webhook.CertificateFile), filepath.Join(dir, webhook.KeyFile))
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
	if info, err := os.Stat(filepath.Join(dir, webhook.KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key is open to others: %v, %v", info.Mode(), err)
	}

	must(t, webhook.SelfSigned(dir, []string{"another"}))
	again, err := os.ReadFile(filepath.Join(dir, webhook.AuthorityFile))
	must(t, err)
	if diff := cmp.Diff(authority, again); diff != "" {
		t.Error("an existing certificate was replaced")
	}
	if err := webhook.SelfSigned(t.TempDir(), nil); err == nil {
		t.Error("made a certificate for nobody")
	}
}
