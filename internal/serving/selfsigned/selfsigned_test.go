package selfsigned_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/serving/selfsigned"
)

// TestMake: a client that trusts the authority accepts the server under each of its names, from
// an hour before until the end, and under no other.
func TestMake(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	made, err := selfsigned.Make(selfsigned.Options{Hosts: []string{"hook.ns.svc", "hook.ns.svc.cluster.local", "127.0.0.1"}, Now: now, Validity: 3 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(made.Chain(), made.Key)
	if err != nil {
		t.Fatal(err)
	}
	if _, is := pair.PrivateKey.(*ecdsa.PrivateKey); !is {
		t.Errorf("the key is a %T", pair.PrivateKey)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(made.Authority) {
		t.Fatal("the authority is no certificate")
	}
	for name, want := range map[string]bool{"hook.ns.svc": true, "hook.ns.svc.cluster.local": true, "127.0.0.1": true, "hook.other.svc": false} {
		if err := pair.Leaf.VerifyHostname(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for at, want := range map[time.Duration]bool{-61 * time.Minute: false, -time.Hour: true, 0: true, 2 * time.Hour: true, 2*time.Hour + time.Second: false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Add(at), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if (err == nil) != want {
			t.Errorf("after %s: %v", at, err)
		}
	}
	if got, err := selfsigned.Make(selfsigned.Options{Hosts: []string{"a"}, Now: now}); err != nil || string(got.Authority) == string(made.Authority) {
		t.Errorf("another certificate: %v", err)
	}
	if _, err := selfsigned.Make(selfsigned.Options{Now: now}); err == nil {
		t.Error("a certificate without a host is made")
	}
}
