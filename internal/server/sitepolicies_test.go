package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/rules/policyload"
	"github.com/dra-steward/dra-steward/internal/rules/policyoutcome"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/policies"
)

// ownPolicy is the text of a policy of a site with one parameter.
func ownPolicy(parameter string) string {
	return fmt.Sprintf(`# METADATA
# title: A claim is too large
# description: What matters here is its parameter.
# custom:
#   code: ACME-GPU-001
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [requests]
#   parameters:
#     type: object
#     additionalProperties: false
#     properties:
#       %s: {type: integer, default: 1, description: Most.}
package dra.custom.large

deny contains {"paths": [request.path], "message": "no"} if {
	some request in input.claim.requests
	request.count > input.parameters["ACME-GPU-001"].%[1]s
}
`, parameter)
}

// stored is a ConfigMap with one policy.
func stored(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "site", Namespace: "steward", ResourceVersion: "5", Labels: map[string]string{policyload.PolicyLabel: "true"}},
		Data: map[string]string{"a.rego": text}}
}

// A cluster has a configuration file, and one ConfigMap with policies.
type cluster struct {
	*testing.T
	options serveOptions
}

func newCluster(t *testing.T, configMap *corev1.ConfigMap) cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case query.Has("sendInitialEvents"):
			w.WriteHeader(http.StatusUnprocessableEntity)
		case query.Has("watch"):
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"}, Items: []corev1.ConfigMap{*configMap}})
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	c := cluster{t, serveOptions{config: filepath.Join(dir, "config.yaml"), kubeconfig: filepath.Join(dir, "kubeconfig"), policyNamespace: configMap.Namespace}}
	c.put(c.options.kubeconfig, fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: %q}}]}", server.URL))
	return c
}

func (c cluster) put(path, text string) {
	c.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

// configure writes the configuration file.
func (c cluster) configure(text string) {
	c.Helper()
	c.put(c.options.config, "apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"+text)
}

func (c cluster) site() *reloader {
	c.Helper()
	site, err := c.options.site(c.Context(), nil, prometheus.NewRegistry(), logr.Discard())
	if err != nil {
		c.Fatal(err)
	}
	return site
}

// TestCorrectedConfiguration: policies that the configuration refused come into force when it is corrected.
func TestCorrectedConfiguration(t *testing.T) {
	c := newCluster(t, stored(ownPolicy("most")))
	c.configure("policies: {parameters: {ACME-GPU-001: {mots: 2}}}")
	site := c.site()
	loads := make(chan error, 10)
	site.policies.Use = func(files policyload.Files, now time.Time) error {
		err := site.usePolicies(files, now)
		loads <- err
		return err
	}
	next := func() error {
		t.Helper()
		select {
		case err := <-loads:
			return err
		case <-time.After(time.Minute):
			t.Fatal("the policies are not loaded")
			return nil
		}
	}
	running := make(chan error)
	go func() { running <- site.policies.Run(t.Context()) }()
	t.Cleanup(func() { <-running })
	for range 2 { // at the start, and because the ConfigMap is new
		if err := next(); err == nil || !strings.Contains(err.Error(), `did you mean "most"?`) {
			t.Fatalf("with the mistake: %v", err)
		}
	}
	c.configure("policies: {parameters: {ACME-GPU-001: {most: 2}}}")
	site.reload()
	if err := next(); err != nil {
		t.Fatal(err)
	}
	if _, found := site.reviewer().Policies.Set().Policy("ACME-GPU-001"); !found {
		t.Error("the policies are not in force")
	}
}

// TestStartWithReplacedPolicy: a file starts the webhook if it fits the policies of the ConfigMaps, which replace those
// of the library. Any other file stops it.
func TestStartWithReplacedPolicy(t *testing.T) {
	text, err := policies.Files.ReadFile("unknown-key/policy.rego")
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, stored(strings.Replace(string(text), "items: {type: string}", "items: {type: [string, object]}", 1)))
	c.configure("policies: {parameters: {DRA-TOL-008: {keys: [{key: example.com/a}]}}}")
	if site := c.site(); site.seen == "" || testutil.ToFloat64(site.metrics.failed) != 0 {
		t.Error("the file is not in force")
	}
	c.configure("policies: {parameters: {DRA-TOL-008: {keys: [1]}}}")
	if _, err := c.options.site(t.Context(), nil, prometheus.NewRegistry(), logr.Discard()); err == nil || !strings.Contains(err.Error(), "config.yaml:3:") {
		t.Errorf("a file that fits no policies: %v", err)
	}
}

// TestReplacedGuardPolicy: policies that the guard cannot use with the thresholds of the file are refused before they are stored.
func TestReplacedGuardPolicy(t *testing.T) {
	text, err := policies.Files.ReadFile("rule-impact/policy.rego")
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(t.Context(), policy.Library(), policy.Collection{Name: "site", Files: fstest.MapFS{"a.rego": {Data: []byte(strings.ReplaceAll(string(text), "maxPercent", "mostPercent"))}}})
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, stored(ownPolicy("max")))
	c.configure("guard: {thresholds: {percent: 10}}")
	if err := c.site().agrees(policyload.Files{Set: set}); err == nil || !strings.Contains(err.Error(), "DRA-RULE-004") {
		t.Error(err)
	}
}

// TestRenamedParameter: a file and policies that fit only each other come into force together. Until then the metric tells
// that the file is refused.
func TestRenamedParameter(t *testing.T) {
	files := func(parameter string) policyload.Files {
		set, err := policy.Parse(t.Context(), policy.Library(), policy.Collection{Name: "site", Files: fstest.MapFS{"a.rego": {Data: []byte(ownPolicy(parameter))}}})
		if err != nil {
			t.Fatal(err)
		}
		return policyload.Files{Set: set}
	}
	before, after := files("max"), files("most")
	c := newCluster(t, stored(ownPolicy("max")))
	c.configure("policies: {parameters: {ACME-GPU-001: {max: 2}}}")
	site := c.site()
	if err := site.usePolicies(before, time.Now()); err != nil {
		t.Fatal(err)
	}
	if site.agrees(after) == nil || site.usePolicies(after, time.Now()) == nil {
		t.Error("the new policies are taken over with the previous file")
	}
	c.configure("policies: {parameters: {ACME-GPU-001: {most: 2}}}")
	site.reload()
	if err := site.usePolicies(before, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(site.metrics.failed); got != 1 {
		t.Errorf("a file is refused, and dra_steward_config_load_failed is %v", got)
	}
	if err := site.agrees(after); err != nil {
		t.Error(err)
	}
	if err := site.usePolicies(after, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(site.metrics.failed); got != 0 || site.file.Policies.Parameters["ACME-GPU-001"] == nil || !strings.Contains(string(site.file.Policies.Parameters["ACME-GPU-001"]), "most") {
		t.Errorf("in force is %s, dra_steward_config_load_failed is %v", site.file.Policies.Parameters, got)
	}
}

// TestPoliciesBeforeTheyAreLoaded: a replica that starts does not say yet which policies are in force, so that those of the site
// do not become young by its restart.
func TestPoliciesBeforeTheyAreLoaded(t *testing.T) {
	c := newCluster(t, stored(ownPolicy("most")))
	c.configure("")
	site := c.site() // as serve makes it; serveAll serves /policies before the first load ends
	ask := func() policyoutcome.Replica {
		w := httptest.NewRecorder()
		site.metricsHandler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, policyoutcome.Path, nil))
		if w.Code != http.StatusOK {
			return policyoutcome.Replica{Name: "a", Silent: http.StatusText(w.Code)}
		}
		load := &policyoutcome.Load{}
		if err := json.NewDecoder(w.Body).Decode(load); err != nil {
			t.Fatal(err)
		}
		return policyoutcome.Replica{Name: "a", Load: load}
	}
	starting := ask()
	running := make(chan error)
	go func() { running <- site.policies.Run(t.Context()) }()
	t.Cleanup(func() { <-running })
	for site.policies.Ready(nil) != nil {
		<-time.After(time.Millisecond)
	}
	loaded := ask()
	monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	status, _ := policyoutcome.Status{}.Next([]policyoutcome.Replica{loaded}, monday)
	before := status.InForce["ACME-GPU-001"].Since
	status, _ = status.Next([]policyoutcome.Replica{starting}, monday.Add(time.Hour)) // the only replica restarts, or all do
	status, _ = status.Next([]policyoutcome.Replica{loaded}, monday.Add(time.Hour+5*time.Second))
	if after := status.InForce["ACME-GPU-001"].Since; !before.Equal(monday) || !after.Equal(before) {
		t.Errorf("in force since %s, after a restart since %s", before, after)
	}
}
