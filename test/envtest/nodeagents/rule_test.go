package nodeagents

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// createRule taints a device of a pool in the version of the API server, until it is removed.
func createRule(t *testing.T, name, pool string) (remove func()) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	resource := cluster.DeviceTaintRules()
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": "DeviceTaintRule", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"deviceSelector": map[string]any{"driver": driver, "pool": pool, "device": "dev-0"},
			"taint":          map[string]any{"key": "example.com/" + name, "effect": "NoSchedule"},
		},
	}}
	if _, err := client.Resource(resource).Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Every agent reads every rule: the next measurement is to begin without this one.
	return func() {
		if err := client.Resource(resource).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
