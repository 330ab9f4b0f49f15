package console_test

import (
	"html"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/internal/cluster/fleet"
	"github.com/dra-steward/dra-steward/internal/console"
)

// TestHealthOfDevice: the page of a device has what its pods report about its health, and nothing
// if they report nothing.
func TestHealthOfDevice(t *testing.T) {
	for health, want := range map[corev1.ResourceHealthStatus]string{
		corev1.ResourceHealthStatusUnhealthy: `<dt>Reported by pods</dt><dd class="bad"><bdi>Unhealthy: a (pod a/a)</bdi>`,
		corev1.ResourceHealthStatusHealthy:   `<dt>Reported by pods</dt><dd><bdi>Healthy: a (pod a/a)</bdi>`,
		"":                                   "",
	} {
		in := hostile("a")
		status := &in.Pods[0].Status.ContainerStatuses[0].AllocatedResourcesStatus[0]
		status.Resources[0].ResourceID, status.Resources[0].Health = "a/a/a", health
		if health == "" {
			in.Pods[0].Status.ContainerStatuses = nil
		}
		f, err := fleet.Build(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		g := console.NewGate(port)
		handler := newServer(t, f).Handler(g)
		body := html.UnescapeString(answer(handler, "GET", "/device?driver=a&pool=a&device=a", enter(t, g, handler)).Body.String())
		if !strings.Contains(body, want) || strings.Contains(body, "Reported by pods") != (want != "") {
			t.Errorf("%q: the page lacks %q:\n%s", health, want, body)
		}
	}
}
