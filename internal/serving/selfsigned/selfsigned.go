// Package selfsigned makes certificates for servers, each signed by an authority of its own.
package selfsigned

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// The types of blocks in PEM.
const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "EC PRIVATE KEY"
)

// skew is how long before it is made a certificate is valid: clocks differ.
const skew = time.Hour

// Options describe a certificate.
type Options struct {
	// Hosts are the names and IP addresses of the server. There must be at least one.
	Hosts []string
	// Now is the time at which it is made. It is valid an hour earlier.
	Now time.Time
	// Validity is how long it is valid, that hour included; 0 means a year.
	Validity time.Duration
}

// A Pair is a certificate with its key, in PEM. The key of the authority is not kept.
type Pair struct {
	// Certificate is that of the server; Authority is the one that signed it.
	Certificate, Authority []byte
	Key                    []byte
}

// Chain is the certificate of the server, and then its authority.
func (p Pair) Chain() []byte {
	return append(p.Certificate[:len(p.Certificate):len(p.Certificate)], p.Authority...)
}

// Make makes a certificate. Its key is of the curve P-256: a TLS handshake takes a server a
// fraction of the time that it takes with a key of RSA.
func Make(o Options) (Pair, error) {
	if len(o.Hosts) == 0 {
		return Pair{}, errors.New("a certificate needs the name or the IP address of a host")
	}
	if o.Validity == 0 {
		o.Validity = 365 * 24 * time.Hour
	}
	authority, authorityKey, err := o.sign(&x509.Certificate{
		Subject:  pkix.Name{CommonName: fmt.Sprintf("%s-ca@%d", o.Hosts[0], o.Now.Unix())},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true,
	}, nil, nil)
	if err != nil {
		return Pair{}, err
	}
	leaf := &x509.Certificate{
		Subject:  pkix.Name{CommonName: fmt.Sprintf("%s@%d", o.Hosts[0], o.Now.Unix())},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range o.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	leaf, key, err := o.sign(leaf, authority, authorityKey)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: encode(certificateBlock, leaf.Raw), Authority: encode(certificateBlock, authority.Raw),
		Key: encode(keyBlock, der),
	}, nil
}

// sign makes a certificate with a new key; without a parent it signs itself.
func (o Options) sign(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	template.SerialNumber.Add(template.SerialNumber, big.NewInt(1))
	template.NotBefore = o.Now.Add(-skew)
	template.NotAfter = template.NotBefore.Add(o.Validity)
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
