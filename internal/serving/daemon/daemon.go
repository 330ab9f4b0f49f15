// Package daemon is what the long-running programs share: listeners, probes, metrics and the
// logger.
package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dra-steward/dra-steward/internal/serving/connections"
	"github.com/dra-steward/dra-steward/internal/serving/fairqueue"
	"github.com/dra-steward/dra-steward/internal/serving/version"
)

const (
	// peers is how many connections to health are open at the same time, and answerRoom what
	// connections to metrics and their answers hold. Addresses share them. Kubelets and Prometheus need little.
	peers      = 256
	answerRoom = 64 << 20
	// gatherers is how many requests gather metrics at the same time, for at most gatherTime.
	gatherers  = 2
	gatherTime = 5 * time.Second
)

// ListenAll opens the addresses of the flags, all or none; an empty one is left out. All but
// --address, whose server has its own limit, are limited in their connections, so that one
// address cannot take the file descriptors of the process.
func ListenAll(addresses map[string]string) (map[string]net.Listener, error) {
	listeners := map[string]net.Listener{}
	for flag, address := range addresses {
		if address == "" && flag != "--address" {
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			for _, open := range listeners {
				open.Close()
			}
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if flag != "--address" {
			listener = connections.Listener{Listener: listener, Account: room(flag)}
		}
		listeners[flag] = listener
	}
	return listeners, nil
}

// room is the account of an address of metrics or of health.
func room(flag string) *connections.Account {
	if flag == "--metrics-address" {
		return &connections.Account{Limit: answerRoom}
	}
	return connections.ForConnections(peers)
}

// AddressOf is where a listener listens, which differs from its flag for port 0.
func AddressOf(listener net.Listener) string {
	if listener == nil {
		return "off"
	}
	return listener.Addr().String()
}

// ServeHTTP serves plain HTTP on listener until ctx ends; nothing if it is nil.
func ServeHTTP(ctx context.Context, listener net.Listener, handler http.Handler) error {
	if listener == nil {
		return nil
	}
	server := &http.Server{Handler: connections.Answers(handler), ConnState: connections.State, ConnContext: connections.Context,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", listener.Addr(), err)
	}
	return nil
}

// NewLogger makes the logger of the program, which controller-runtime uses as well. set, which
// may be nil, gives it to other libraries.
func NewLogger(out io.Writer, set func(logr.Logger), logLevel, logFormat string) (logr.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(logLevel)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: must be debug, info, warn or error", logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler
	switch logFormat {
	case "json":
		handler = slog.NewJSONHandler(out, options)
	case "text":
		handler = slog.NewTextHandler(out, options)
	default:
		return logr.Logger{}, fmt.Errorf("--log-format %q: must be json or text", logFormat)
	}
	log := logr.FromSlogHandler(handler)
	ctrllog.SetLogger(log)
	if set != nil {
		set(log)
	}
	return log, nil
}

// Probes serves /healthz and, with these checks, /readyz.
func Probes(ready map[string]healthz.Checker) http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{
		"/healthz": {"ping": healthz.Ping},
		"/readyz":  ready,
	} {
		// The handler looks for its checks below "/".
		mux.Handle("GET "+path, http.StripPrefix(path, &healthz.Handler{Checks: checks}))
	}
	return mux
}

// MetricsHandler serves /metrics. What is gathered is in memory only until it is encoded, not
// until the client has taken the answer.
func MetricsHandler(registry *prometheus.Registry) http.Handler {
	gather := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	gathering := &fairqueue.Queue{Slots: gatherers}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		release, err := gathering.Acquire(r.Context(), gatherTime, connections.Address(r.RemoteAddr))
		if err != nil {
			http.Error(w, err.Error()+"; try again", http.StatusServiceUnavailable)
			return
		}
		answer := &encoded{ResponseWriter: w}
		gather.ServeHTTP(answer, r)
		release()
		_, _ = w.Write(answer.body.Bytes()) // the client may have left
	})
	return mux
}

// encoded keeps the body of an answer.
type encoded struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (e *encoded) Write(p []byte) (int, error) { return e.body.Write(p) }

// RegisterBuildInfo registers the metric with the version of the program.
func RegisterBuildInfo(registerer prometheus.Registerer) error {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "dra_steward_build_info",
		Help: "1 for the version and commit of dra-steward, and the version of Go with which it was built.",
	}, []string{"version", "commit", "go_version"})
	v := version.Get()
	build.WithLabelValues(cmp.Or(v.Version, "unknown"), cmp.Or(v.Commit, "unknown"), v.GoVersion).Set(1)
	return registerer.Register(build)
}
