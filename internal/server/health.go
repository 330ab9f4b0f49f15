package server

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/dra-steward/dra-steward/internal/daemon"
	"github.com/dra-steward/dra-steward/webhook"
)

// healthHandler serves /healthz, which succeeds as long as the process lives, and
// /readyz, which succeeds while API servers may send requests.
func healthHandler(server *webhook.Server, world *ClusterView, site *reloader) http.Handler {
	ready := map[string]healthz.Checker{"admission": server.Ready}
	if world != nil {
		ready["live-data"] = world.ready
	}
	if site.policies != nil {
		ready["policies"] = site.policies.Ready
	}
	if site.guard != nil {
		ready["guard"] = site.guard.Ready
	}
	return daemon.Probes(ready)
}
