package release_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// TestEmergency runs the command of docs/operations.md that removes the webhooks, and restores
// them with the values of the release.
func TestEmergency(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)## In an emergency.*?```sh\nkubectl ([^\n]+)\n```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/operations.md has no command of one line for an emergency")
	}
	h := newHelm(t, "emergency")
	h.must(h.install(current(t), with(values{"fullnameOverride": "guard", "uninstall": values{"enabled": false}, "crds": values{"keep": false}})))
	if n := h.configurations(); n != 2 {
		t.Fatalf("%d webhook configurations of ours, want 2", n)
	}
	out, err := cluster.Kubectl(t.Context(), strings.Fields(string(found[1]))...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := h.configurations(); n != 0 {
		t.Errorf("%d webhook configurations of ours are left", n)
	}
	reuse := action.NewUpgrade(h.config) // helm upgrade --reuse-values
	reuse.Namespace, reuse.Timeout, reuse.ReuseValues = h.namespace, time.Minute, true
	h.must(reuse.RunWithContext(t.Context(), name, current(t), nil))
	if n := h.configurations(); n != 2 {
		t.Errorf("an upgrade brings back %d webhook configurations, want 2", n)
	}
	h.must(h.uninstall())
	h.wantTypesGone() // the next release of this cluster brings its own
}

func (h helm) configurations() int {
	h.t.Helper()
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := h.client.List(h.t.Context(), &validating); err != nil {
		h.t.Fatal(err)
	}
	if err := h.client.List(h.t.Context(), &mutating); err != nil {
		h.t.Fatal(err)
	}
	return len(validating.Items) + len(mutating.Items)
}
