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
	mux.Handle("GET /healthz", &healthz.Handler{Checks: map[string]healthz.Checker{"ping": healthz.Ping}})
	mux.Handle("GET /readyz", &healthz.Handler{Checks: map[string]healthz.Checker{"admission": server.Ready}})
	return mux
}

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
