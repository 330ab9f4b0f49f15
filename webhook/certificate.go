package webhook

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"
)

// AuthorityFile is where SelfSigned puts the certificate that a webhook
// configuration's caBundle needs.
const AuthorityFile = "ca.crt"

// SelfSigned makes a certificate for hosts (names or IP addresses), valid for a
// year, and the authority that signed it, and writes both into dir. It is meant for
// development and demonstrations. Where dir has a certificate already, nothing
// happens.
func SelfSigned(dir string, hosts []string) error {
	if _, err := os.Stat(filepath.Join(dir, CertificateFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(hosts) == 0 {
		return errors.New("a certificate needs the name of a host")
	}
	var ips []net.IP
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		}
	}
	chain, key, err := certutil.GenerateSelfSignedCertKey(hosts[0], ips, hosts)
	if err != nil {
		return fmt.Errorf("make a certificate: %w", err)
	}
	_, authority := pem.Decode(chain) // the leaf comes first, then its authority
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The certificate comes last, since its presence says that all is there.
	for _, file := range []struct {
		name string
		data []byte
	}{{AuthorityFile, authority}, {KeyFile, key}, {CertificateFile, chain}} {
		if err := os.WriteFile(filepath.Join(dir, file.name), file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
