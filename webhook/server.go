package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Paths of the handlers, which the chart's webhook configurations name.
const (
	mutatePath   = "/mutate"
	validatePath = "/validate"
	guardPath    = "/guard"
	// podsPath is for pods at CREATE that name extended resources.
	podsPath = "/pods"
	// slicesSuffix is what the paths for ResourceSlices end in. A request to one of them that does
	// not arrive in time is that of a driver, which is not refused.
	slicesSuffix = "/slices"
)

// A Server offers the admission handlers over TLS.
type Server struct {
	// Mutating and Validating are the handlers; see the functions of that name.
	Mutating, Validating admission.Handler
	// Guarding is the handler of that name; nil for none.
	Guarding admission.Handler
	// Pods is the handler of ExtendedResources; nil for none.
	Pods admission.Handler
	// CertDir holds tls.crt and tls.key. They are read again when they
	// change. Not needed with Certificate.
	CertDir string
	// Certificate is served in place of files. Until it has one the server is not
	// ready and refuses connections.
	Certificate Certificate
	// ClientCA is a file with the certificate authorities of API servers. A connection without
	// a client certificate of one of them is refused. The file is read again when it changes.
	// Empty accepts all connections.
	ClientCA string
	// ShutdownDelay is how long the server goes on accepting requests after its
	// context has ended, so that every API server has learned by then, from the
	// failing readiness, that it is going away.
	ShutdownDelay time.Duration
	// Bounds limit what requests cost.
	Bounds Bounds
	// Metrics count what the Bounds refuse; nil counts nothing.
	Metrics *Metrics
	Log     logr.Logger

	serving atomic.Bool
	served  atomic.Pointer[Certificate]
}

// shutdownTimeout bounds the wait for requests in flight. It is longer than the
// longest timeout that the chart gives a webhook (10 s) by far.
const shutdownTimeout = 20 * time.Second

// lastCall is how long connections may still send requests once no more are accepted:
// a server that shuts down drops a request that it has not begun to read.
const lastCall = time.Second

// Serve answers requests on listener until ctx ends. Then it is no longer ready,
// goes on for ShutdownDelay, stops accepting and answers what it has accepted: with a
// ShutdownDelay also what comes on connections that have carried a review, until their clients
// have closed them, which API servers do after 90 seconds without use.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	certificate, err := s.certificate()
	if err != nil {
		listener.Close()
		return err
	}
	clients, err := s.clients()
	if err != nil {
		listener.Close()
		return err
	}
	limiter := newLimiter(s.Bounds, s.Metrics)
	server := limiter.server(s.handler(limiter))
	server.ErrorLog = slog.NewLogLogger(logr.ToSlogHandler(s.Log), slog.LevelInfo)
	secure := tls.NewListener(limiter.listener(listener), clients.require(&tls.Config{
		GetCertificate: certificate.GetCertificate,
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
	}))
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	group, failed := errgroup.WithContext(background)
	group.Go(func() error { return certificate.Start(background) })
	group.Go(func() error { return clients.run(background) })
	s.served.Store(&certificate)
	s.serving.Store(true)
	defer s.serving.Store(false)
	group.Go(func() error {
		if err := server.Serve(secure); ctx.Err() == nil {
			return err
		}
		return nil
	})
	group.Go(func() error {
		defer stop()
		return s.shutdown(ctx, failed, server, listener, limiter)
	})
	return group.Wait()
}

// shutdown ends server in order once ctx has ended, and at once when it failed.
func (s *Server) shutdown(ctx, failed context.Context, server *http.Server, listener net.Listener, limiter *limiter) error {
	select {
	case <-ctx.Done():
	case <-failed.Done():
		return server.Close()
	}
	s.serving.Store(false)
	limiter.lingering.begun.Store(true)
	s.Log.Info("shutting down", "delay", s.ShutdownDelay)
	pause(failed, s.ShutdownDelay)
	listener.Close()
	pause(failed, min(s.ShutdownDelay, lastCall))
	if s.ShutdownDelay > 0 {
		limiter.reviewed.wait(failed)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := drain(last, server)
	limiter.lingering.wait(last)
	return err
}

// pause waits for d, less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// drain shuts server down, again every second: an HTTP/2 connection whose handshake ends
// while the server begins to shut down is not asked to close, and Shutdown waits for an
// unused one until ctx ends.
func drain(ctx context.Context, server *http.Server) error {
	for {
		round, cancel := context.WithTimeout(ctx, time.Second)
		err := server.Shutdown(round)
		cancel()
		switch {
		case errors.Is(err, net.ErrClosed): // the listener, before
			return nil
		case !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
			return err
		}
	}
}

// Ready is nil while the server accepts requests with a certificate that is valid, and
// means to go on.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the webhook server is not serving, or is about to stop")
	}
	return valid(*s.served.Load(), time.Now())
}

// Expires is when the certificate that is served ends; zero while there is none.
func (s *Server) Expires() time.Time {
	served := s.served.Load()
	if served == nil {
		return time.Time{}
	}
	certificate, err := (*served).GetCertificate(nil)
	if err != nil || certificate.Leaf == nil {
		return time.Time{}
	}
	return certificate.Leaf.NotAfter
}

func (s *Server) handler(limiter *limiter) http.Handler {
	mux := http.NewServeMux()
	for path, handler := range map[string]admission.Handler{mutatePath: s.Mutating, validatePath: s.Validating, guardPath: s.Guarding, podsPath: s.Pods} {
		if handler == nil {
			continue
		}
		endpoint := strings.TrimPrefix(path, "/")
		webhook := reviews{&admission.Webhook{Handler: timely{handler, endpoint, s.Log, s.Metrics}, LogConstructor: s.logger}, s.Log, &limiter.reviewed}
		mux.Handle("POST "+path, &intake{limiter: limiter, endpoint: endpoint, next: webhook, log: s.Log})
		mux.Handle("POST "+path+slicesSuffix, &intake{limiter: limiter, endpoint: endpoint, slices: true, next: webhook, log: s.Log})
	}
	return s.leaving(traced(mux))
}

// leaving ends every connection that is used while the server is about to stop, with the
// answer (Connection: close, GOAWAY). Otherwise a client that continues to use a connection
// loses the request that it sends while the server closes it.
func (s *Server) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.serving.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// logger is given the request by controller-runtime, nil when it could not be read.
func (s *Server) logger(_ logr.Logger, req *admission.Request) logr.Logger {
	if req == nil {
		return s.Log
	}
	return s.Log.WithValues("kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name, "uid", req.UID)
}
