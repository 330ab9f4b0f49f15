package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/dra-steward/dra-steward/internal/serving/selfsigned"
)

// A Certificate is what a server presents to API servers.
type Certificate interface {
	// GetCertificate returns it, an error while there is none.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Start follows its changes until ctx ends.
	Start(ctx context.Context) error
}

// certificate is the one of the options, or that of the files, which must be there.
func (s *Server) certificate() (Certificate, error) {
	if s.Certificate != nil {
		return s.Certificate, nil
	}
	files, err := certwatcher.New(filepath.Join(s.CertDir, corev1.TLSCertKey), filepath.Join(s.CertDir, corev1.TLSPrivateKeyKey))
	if err != nil {
		return nil, fmt.Errorf("no serving certificate: %w; put %s and %s into %s, or use --self-signed",
			err, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, s.CertDir)
	}
	return files, nil
}

// valid is nil for a certificate that an API server may accept now.
func valid(c Certificate, now time.Time) error {
	served, err := c.GetCertificate(nil)
	if err != nil {
		return err
	}
	switch leaf := served.Leaf; {
	case leaf == nil:
		return nil // nothing is known of it
	case now.After(leaf.NotAfter):
		return fmt.Errorf("the certificate expired at %s: renew it", leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s: is the clock right?", leaf.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// AuthorityFile is where SelfSigned puts the certificate that a webhook
// configuration's caBundle needs.
const AuthorityFile = "ca.crt"

// SelfSigned makes a certificate for hosts (names or IP addresses), valid for a
// year, and the authority that signed it, and writes both into dir. It is meant for
// development and demonstrations. Where dir has a certificate already, nothing
// happens.
func SelfSigned(dir string, hosts []string) error {
	if _, err := os.Stat(filepath.Join(dir, corev1.TLSCertKey)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	made, err := selfsigned.Make(selfsigned.Options{Hosts: hosts, Now: time.Now()})
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The certificate comes last, since its presence says that all is there.
	for _, file := range []struct {
		name string
		data []byte
	}{{AuthorityFile, made.Authority}, {corev1.TLSPrivateKeyKey, made.Key}, {corev1.TLSCertKey, made.Chain()}} {
		if err := os.WriteFile(filepath.Join(dir, file.name), file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// clientAuthority requires client certificates; nil requires none.
type clientAuthority struct {
	file *dynamiccertificates.DynamicFileCAContent
}

// clients reads the file of ClientCA.
func (s *Server) clients() (*clientAuthority, error) {
	if s.ClientCA == "" {
		return nil, nil
	}
	file, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", s.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("client CA %s: %w", s.ClientCA, err)
	}
	return &clientAuthority{file}, nil
}

// require returns a configuration that refuses connections without a client certificate.
func (c *clientAuthority) require(config *tls.Config) *tls.Config {
	if c == nil {
		return config
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		options, ok := c.file.VerifyOptions()
		if !ok {
			return nil, fmt.Errorf("client CA %s: no certificates", c.file.Name())
		}
		own := each.Clone()
		own.ClientCAs = options.Roots
		return own, nil
	}
	return config
}

// run follows the file until ctx ends.
func (c *clientAuthority) run(ctx context.Context) error {
	if c != nil {
		c.file.Run(ctx, 1)
	}
	return nil
}
