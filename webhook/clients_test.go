package webhook_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/review"
	"github.com/dra-steward/dra-steward/webhook"
)

// authority makes a certificate authority, as a file, and a client certificate of it.
func authority(t *testing.T, name string) (file string, client tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return file, tls.Certificate{Certificate: [][]byte{leaf}, PrivateKey: key}
}

// TestClientCA: with a client CA only callers with a certificate of it get an answer.
func TestClientCA(t *testing.T) {
	file, trusted := authority(t, "cluster")
	_, other := authority(t, "tenant")
	running := start(t, review.Reviewer{}, func(s *webhook.Server) { s.ClientCA = file })
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		accepted     bool
	}{
		"none": {}, "another authority": {certificates: []tls.Certificate{other}}, "the authority": {[]tls.Certificate{trusted}, true},
	} {
		client := running.newClient(t, true)
		client.Transport.(*http.Transport).TLSClientConfig.Certificates = test.certificates
		_, err := send(client, running.address, reviewOf(t, "v1", create("ResourceClaim", claim(1))))
		if (err == nil) != test.accepted {
			t.Errorf("with a certificate of %s: %v", name, err)
		}
	}
}

// TestStrangersReadWhatAuthorsRead: without a client certificate, a caller cannot be told from the
// API server, and a denial has what the author needs to correct the object.
func TestStrangersReadWhatAuthorsRead(t *testing.T) {
	running := start(t, review.Reviewer{}, nil)
	request := create("ResourceClaim", claim(17))
	request.UserInfo.Username, request.Namespace = "somebody", "elsewhere"
	response, err := running.newClient(t, true).Post("https://"+running.address+"/validate", "application/json", bytes.NewReader(reviewOf(t, "v1", request)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(answer), "must have at most 16 items") {
		t.Errorf("%s %v, want the limit", answer, err)
	}
}

// TestExemptionsAreNotNamed: a caller without a client certificate learns that an exemption
// admits the object, but not why.
func TestExemptionsAreNotNamed(t *testing.T) {
	reviewer, err := review.New(v1alpha1.StewardConfiguration{Exemptions: []v1alpha1.Exemption{{
		Rules: []string{"request-tolerations-max"}, Namespaces: []string{"ml"},
		Reason: "until they have moved", Expires: metav1.NewTime(time.Now().Add(time.Hour)),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	file, trusted := authority(t, "cluster")
	request := create("ResourceClaim", claim(17))
	request.Namespace = "ml"
	for name, test := range map[string]struct {
		change       func(*webhook.Server)
		certificates []tls.Certificate
		want         string
	}{
		"anybody":       {nil, nil, "(dra-steward rule request-tolerations-max): exemptions[0]"},
		"an API server": {func(s *webhook.Server) { s.ClientCA = file }, []tls.Certificate{trusted}, "(dra-steward rule request-tolerations-max): until they have moved"},
	} {
		running := start(t, reviewer, test.change)
		client := running.newClient(t, true)
		client.Transport.(*http.Transport).TLSClientConfig.Certificates = test.certificates
		response, err := client.Post("https://"+running.address+"/validate", "application/json", bytes.NewReader(reviewOf(t, "v1", request)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(answer), test.want) {
			t.Errorf("%s: %s %v, want %q", name, answer, err, test.want)
		}
	}
}

// TestClientCAMissing: the server does not start without the file.
func TestClientCAMissing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &webhook.Server{CertDir: certDir(t), ClientCA: filepath.Join(t.TempDir(), "ca.crt")}
	if err := server.Serve(t.Context(), listener); err == nil {
		t.Error("the server started")
	}
}
