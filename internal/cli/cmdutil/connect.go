package cmdutil

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Limits of a connection. The kernel of an API server accepts it, busy or not, so an address that
// does not accept is wrong or behind a firewall; one second passes until a lost packet is sent again.
// The first byte comes from the API server itself, and a busy one takes seconds
// (docs/decisions/0059-a-slow-api-server-has-four-seconds.md). Credential plugins have ended when a
// connection begins.
const (
	acceptTime = 1750 * time.Millisecond
	answerTime = 4 * time.Second // with acceptTime
)

// A dialer connects to an API server that answers soon.
type dialer struct {
	// encrypted connections begin with an answer of the server; others begin when it
	// has served the first request, which may take long.
	encrypted bool
}

// encrypted reports whether connections of a client begin with TLS.
func encrypted(config *rest.Config) bool {
	address, _, err := rest.DefaultServerUrlFor(config)
	return err == nil && address.Scheme == "https"
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	begin := time.Now()
	conn, err := (&net.Dialer{Deadline: begin.Add(acceptTime), KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil || !d.encrypted {
		return conn, err
	}
	return &answering{Conn: conn}, conn.SetReadDeadline(begin.Add(answerTime))
}

// answering is a connection with a deadline for its first byte.
type answering struct {
	net.Conn
	answered atomic.Bool
}

func (c *answering) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if n > 0 && !c.answered.Swap(true) {
		if failed := c.Conn.SetReadDeadline(time.Time{}); err == nil {
			err = failed
		}
	}
	return n, err
}

// Explain returns what went wrong between a command and the API server in one sentence, or
// err if it is about something else.
func Explain(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the API server does not accept the credentials: %w; log in again, or choose another --context", err)
	}
	failed := (*url.Error)(nil)
	if !errors.As(err, &failed) {
		return err
	}
	at, parseErr := url.Parse(failed.URL)
	if parseErr != nil {
		return err
	}
	if reason := unreachable(failed.Err, at.Hostname()); reason != "" {
		return fmt.Errorf("cannot connect to the API server %s://%s: %s", at.Scheme, at.Host, reason)
	}
	return err
}

// plainHTTP is the text of net/http's error, which has no type, about a server without TLS.
const plainHTTP = "server gave HTTP response to HTTPS client"

// unreachable says why a connection failed; "" if that is not known.
func unreachable(err error, host string) string {
	var (
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		unknown     x509.UnknownAuthorityError
		slow        net.Error
	)
	switch {
	case errors.As(err, &lookup):
		return fmt.Sprintf("cannot resolve host %q: check the address in the kubeconfig, and the network", host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: check the address in the kubeconfig, and that the API server runs"
	case errors.As(err, &unknown):
		return "its certificate is signed by an unknown authority: check certificate-authority in the kubeconfig"
	case errors.As(err, &certificate):
		return certificate.Err.Error()
	case strings.Contains(err.Error(), plainHTTP):
		return "it does not use TLS: check the address in the kubeconfig"
	case errors.As(err, &slow) && slow.Timeout():
		return "no answer: check the address in the kubeconfig, and the network"
	}
	return ""
}
