package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// Keys of the Secret. The first three are those of a Secret of type kubernetes.io/tls.
const (
	CertificateKey     = "tls.crt"
	PrivateKeyKey      = "tls.key"
	AuthoritiesKey     = "ca.crt"
	NextCertificateKey = "next.crt"
	NextPrivateKeyKey  = "next.key"
)

// A Pair is a certificate, followed by the authority that signed it, and its private key,
// both in PEM. The zero value is no pair.
type Pair struct {
	Certificate, PrivateKey []byte
}

// A State is what the Secret holds. The key of an authority is in no State: it signs one
// certificate and is forgotten.
type State struct {
	// Serving is what webhooks serve, Next what they will.
	Serving, Next Pair
	// Authorities are to be trusted, in the order in which they came.
	Authorities []*x509.Certificate
}

// Parse reads the data of a Secret. What cannot be read is left out, as if it were not
// there.
func Parse(data map[string][]byte) State {
	s := State{
		Serving: Pair{data[CertificateKey], data[PrivateKeyKey]},
		Next:    Pair{data[NextCertificateKey], data[NextPrivateKeyKey]},
	}
	for _, pair := range []*Pair{&s.Serving, &s.Next} {
		if _, err := pair.chain(); err != nil {
			*pair = Pair{}
		}
	}
	if bytes.Equal(s.Next.Certificate, s.Serving.Certificate) {
		s.Next = Pair{} // it is served already, and another field manager keeps it in the Secret
	}
	for _, authority := range parse(data[AuthoritiesKey]) {
		s.trust(authority)
	}
	return s.complete()
}

// Trusting returns the state in which the authorities of a caBundle are trusted, too: of a
// certificate that is served although no Secret has it any more.
func (s State) Trusting(bundle []byte) State {
	s.Authorities = slices.Clone(s.Authorities)
	for _, authority := range parse(bundle) {
		s.trust(authority)
	}
	return s
}

// Data is the content of the Secret.
func (s State) Data() map[string][]byte {
	data := map[string][]byte{AuthoritiesKey: s.Bundle()}
	for _, item := range []struct {
		certificateKey, privateKeyKey string
		pair                          Pair
	}{{CertificateKey, PrivateKeyKey, s.Serving}, {NextCertificateKey, NextPrivateKeyKey, s.Next}} {
		if !item.pair.empty() {
			data[item.certificateKey], data[item.privateKeyKey] = item.pair.Certificate, item.pair.PrivateKey
		}
	}
	return data
}

// Bundle are the authorities in PEM, as the caBundle of a webhook has them.
func (s State) Bundle() []byte {
	var bundle bytes.Buffer
	for _, authority := range s.Authorities {
		// Writing to memory does not fail.
		_ = pem.Encode(&bundle, &pem.Block{Type: pemCertificate, Bytes: authority.Raw})
	}
	return bundle.Bytes()
}

// Empty reports whether there is nothing to serve, now or next.
func (s State) Empty() bool { return s.Serving.empty() && s.Next.empty() }

// Prepare returns the state in which pair is the next one and its authority trusted.
func (s State) Prepare(pair Pair) State {
	s.Next = pair
	return s.complete()
}

// Promote returns the state in which the next pair is served.
func (s State) Promote() State {
	s.Serving, s.Next = s.Next, Pair{}
	return s
}

// Retire returns the state that trusts only the authorities of the pairs that are served,
// now or next.
func (s State) Retire() State {
	s.Authorities = nil
	return s.complete()
}

// retired reports whether an authority is trusted that signed neither pair.
func (s State) retired() bool { return len(s.Retire().Authorities) < len(s.Authorities) }

// complete adds the authorities of the pairs.
func (s State) complete() State {
	s.Authorities = slices.Clone(s.Authorities)
	for _, pair := range []Pair{s.Serving, s.Next} {
		if chain, err := pair.chain(); err == nil {
			s.trust(chain[len(chain)-1])
		}
	}
	return s
}

// trust adds one authority, once.
func (s *State) trust(authority *x509.Certificate) {
	if authority.IsCA && !slices.ContainsFunc(s.Authorities, authority.Equal) {
		s.Authorities = append(s.Authorities, authority)
	}
}

func (p Pair) empty() bool { return len(p.Certificate) == 0 }

// chain returns the certificate and its authority, the same for one that signed itself.
func (p Pair) chain() ([]*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(p.Certificate, p.PrivateKey)
	if err != nil {
		return nil, err
	}
	var chain []*x509.Certificate
	for _, der := range pair.Certificate {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		chain = append(chain, certificate)
	}
	return chain, nil
}

// Expires is when the pair is no longer valid; zero if there is none.
func (p Pair) Expires() time.Time {
	chain, err := p.chain()
	if err != nil {
		return time.Time{}
	}
	return chain[0].NotAfter
}

const pemCertificate = "CERTIFICATE"

// parse returns the certificates in PEM text, as far as it can be read.
func parse(text []byte) (certificates []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return certificates
		}
		if block.Type != pemCertificate {
			continue
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			certificates = append(certificates, certificate)
		}
	}
}
