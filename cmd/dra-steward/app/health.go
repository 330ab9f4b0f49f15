package app

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/dra-steward/dra-steward/webhook"
)

// healthHandler serves /healthz, which lives as long as the process does, and
// /readyz, which says whether API servers may send requests.
func healthHandler(server *webhook.Server) http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]healthz.Checker{"/healthz": healthz.Ping, "/readyz": server.Ready} {
		handler := &healthz.Handler{Checks: map[string]healthz.Checker{"admission": check}}
		mux.Handle("GET "+path, http.StripPrefix(path, handler)) // it looks for its checks below "/"
	}
	return mux
}

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
