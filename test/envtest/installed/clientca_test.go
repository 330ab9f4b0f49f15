package installed

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// apiServerClient is what the API server of these tests presents to webhooks.
var apiServerClient admissionClient

type admissionClient struct {
	// file is the AdmissionConfiguration, authority what signed the certificate, in PEM.
	file, authority string
	certificate     tls.Certificate
}

// configureAdmission writes into dir the files that docs/certificates.md shows, and the
// certificate that they name.
func configureAdmission(dir string) (c admissionClient, err error) {
	page, err := os.ReadFile("../../../docs/certificates.md")
	if err != nil {
		return c, err
	}
	for _, f := range []struct{ kind, name string }{{"AdmissionConfiguration", "admission.yaml"}, {"Config", "webhooks.kubeconfig"}} {
		block := regexp.MustCompile("(?s)```yaml\n(apiVersion: [^\n]+\nkind: " + f.kind + "\n.*?)```").FindSubmatch(page)
		if block == nil {
			return c, fmt.Errorf("docs/certificates.md shows no %s", f.kind)
		}
		text := strings.NewReplacer("/etc/kubernetes/pki/", dir+"/", "/etc/kubernetes/", dir+"/").Replace(string(block[1]))
		if err := os.WriteFile(filepath.Join(dir, f.name), []byte(text), 0o600); err != nil {
			return c, err
		}
	}
	authority, client, err := clientCertificate("webhook clients")
	if err != nil {
		return c, err
	}
	key, err := keyutil.MarshalPrivateKeyToPEM(client.PrivateKey)
	if err != nil {
		return c, err
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Certificate[0]})
	err = errors.Join(os.WriteFile(filepath.Join(dir, "webhooks.crt"), chain, 0o600), os.WriteFile(filepath.Join(dir, "webhooks.key"), key, 0o600))
	return admissionClient{filepath.Join(dir, "admission.yaml"), authority, client}, err
}

// clientCertificate makes an authority, in PEM, and a client certificate of it.
func clientCertificate(name string) (string, tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", tls.Certificate{}, err
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		return "", tls.Certificate{}, err
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), key)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	return string(authority), tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}, err
}

// TestClientCA: with certificates.clientCA, an API server that is configured as
// docs/certificates.md says is answered, and a caller without its certificate is not.
func TestClientCA(t *testing.T) {
	_, strange, err := clientCertificate("webhook clients")
	must(t, err)
	values := quick()
	values["certificates"].(map[string]any)["clientCA"] = apiServerClient.authority
	c, clients := install(t, values)
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		answered     bool
	}{
		"none": {}, "another authority of the same name": {certificates: []tls.Certificate{strange}},
		"the API server": {[]tls.Certificate{apiServerClient.certificate}, true},
	} {
		for _, pod := range kubelet.Pods("webhook") {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: test.certificates}}}
			response, err := client.Post("https://"+net.JoinHostPort(pod.Address, "9443")+"/validate", "application/json", bytes.NewBufferString("{}"))
			if (err == nil) != test.answered {
				t.Errorf("with a certificate of %s: %v", name, err)
			}
			if err == nil {
				response.Body.Close()
			}
		}
	}
	eventually(t, "still guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
}
