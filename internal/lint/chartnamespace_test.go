package lint

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestNamespaceOfChart: objects of a chart that name no namespace are checked as those of the one that the chart is installed into.
func TestNamespaceOfChart(t *testing.T) {
	site := filepath.Join(t.TempDir(), "site.yaml")
	const configuration = `apiVersion: dra-steward.io/v1alpha1
kind: StewardConfiguration
exemptions:
- {rules: [toleration-empty-key], namespaces: [team-a], reason: agreed, expires: "2026-12-31T00:00:00Z"}
`
	if err := os.WriteFile(site, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	render := func(context.Context, string, Cluster) ([]Rendered, error) {
		return []Rendered{{File: "claim.yaml", Text: "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com, tolerations: [{}]}}]}}\n"}}, nil
	}
	for namespace, want := range map[string]int{"team-a": 0, "default": 1} {
		l := linter(t)
		l.Sites.File, l.Namespace = &site, namespace
		errors := 0
		for result := range l.RunCharts(t.Context(), render, "chart") {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			for _, report := range result.Reports {
				if report.Rule == "toleration-empty-key" {
					errors++
				}
			}
		}
		if errors != want {
			t.Errorf("in namespace %s: %d findings, want %d", namespace, errors, want)
		}
	}
}
