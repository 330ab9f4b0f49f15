package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// TestCertManagerBack: after certificates.mode certManager the Secret has a certificate in tls.crt and its authority in
// ca.crt alone. That authority stays trusted until another certificate is served.
func TestCertManagerBack(t *testing.T) {
	now := time.Now()
	caKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "dra-steward-authority"}, caKey)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{}, DNSNames: []string{"a.b.svc"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(89 * 24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, key.Public(), caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, _ := keyutil.MarshalPrivateKeyToPEM(key)
	block := func(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }
	data := map[string][]byte{"tls.crt": block(leaf), "tls.key": keyPEM, "ca.crt": block(ca.Raw)}
	s := Times{Hosts: []string{"a.b.svc"}, Validity: 90 * 24 * time.Hour, RenewBefore: 30 * 24 * time.Hour, WaitAfterChange: 2 * time.Minute}
	state := Parse(data)
	d := s.Decide(state, Seen{Now: now, Trusted: now.Add(-time.Hour), Served: now.Add(-time.Hour)})
	if d.Action == Retire {
		after := Parse(state.Retire().Data())
		d := s.Decide(after, Seen{Now: now, Trusted: now.Add(-time.Hour), Served: now.Add(-time.Hour)})
		t.Errorf("the only authority of what is served is dropped: bundle %q (nil: %t), serving: %t; then %+v", after.Bundle(), after.Bundle() == nil, !after.Serving.empty(), d)
	}
}
