package app

import (
	"net/http"

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
