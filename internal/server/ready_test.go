package server

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/dra-steward/dra-steward/webhook"
)

// TestReadyMetric: the webhook is ready if all checks succeed; one that has not begun to serve is not, and
// can be asked.
func TestReadyMetric(t *testing.T) {
	ping := func(*http.Request) error { return nil }
	for name, c := range map[string]struct {
		checks map[string]healthz.Checker
		want   string
	}{
		"ready":     {map[string]healthz.Checker{"admission": ping, "guard": ping}, "1"},
		"not read":  {map[string]healthz.Checker{"admission": ping, "guard": func(*http.Request) error { return errors.New("not read yet") }}, "0"},
		"not begun": {readiness(&webhook.Server{}, nil, &reloader{}), "0"},
	} {
		registry := prometheus.NewPedanticRegistry()
		if err := RegisterState(registry, &webhook.Server{}, c.checks); err != nil {
			t.Fatal(err)
		}
		want := `
# HELP dra_steward_webhook_ready 1 while the webhook is ready for the requests of API servers, as /readyz says, otherwise 0.
# TYPE dra_steward_webhook_ready gauge
dra_steward_webhook_ready ` + c.want + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dra_steward_webhook_ready"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
