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
func healthHandler(server *webhook.Server, world *informed, site *configured) http.Handler {
	ready := map[string]healthz.Checker{"admission": server.Ready}
	if world != nil {
		ready["live-data"] = world.ready
	}
	if site.policies != nil {
		ready["policies"] = site.policies.ready
	}
	if site.guard != nil {
		ready["guard"] = site.guard.ready
	}
	return probes(ready)
}

// probes serves /healthz and, with these checks, /readyz.
func probes(ready map[string]healthz.Checker) http.Handler {
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

func metricsHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}
