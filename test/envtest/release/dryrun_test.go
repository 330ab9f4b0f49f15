package release_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/chart"
)

// TestServerTakesEveryObject lets the API server judge every object of many values, as
// kubectl apply --dry-run=server --validate=strict does: an unknown field is an error.
func TestServerTakesEveryObject(t *testing.T) {
	const namespace = "dry-run"
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	for title, more := range map[string]values{
		"minimal":     nil,
		"everything":  everything(),
		"one replica": {"replicaCount": 1},
		"no rights":   {"liveData": values{"enabled": false}, "policies": values{"configMaps": false}},
		"evicting":    {"controller": values{"mode": "full"}},
		"patches":     {"patches": values{"mode": "materialize"}},
		"scheduler":   withScheduler(values{"scheduler": values{"enabled": true}}),
		"nodes":       {"node": values{"enabled": true, "devicePlugins": true, "serveSocket": "/run/dra-steward/pods.sock"}},
		"observing":   {"mode": "observe", "tracing": values{"endpoint": "http://collector:4317"}},
		"enforcing":   {"mode": "enforce", "uninstall": values{"taintRules": "lift"}, "forceDeletion": values{"enabled": true}},
	} {
		t.Run(title, func(t *testing.T) {
			options := chart.Options{Namespace: namespace, KubeVersion: cluster.Version()}
			all, err := chart.Render(with(more), options)
			if err != nil {
				t.Fatal(err)
			}
			hooks, err := chart.Hooks(with(more), options)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, hooks...)
			for _, object := range all {
				strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
				if err := strict.Create(t.Context(), object, client.DryRunAll); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

// everything sets every value that changes what kind of fields an object has.
func everything() values {
	return values{
		"replicaCount":      3,
		"image":             values{"digest": "sha256:" + strings.Repeat("a", 64), "pullPolicy": "Always"},
		"imagePullSecrets":  []any{values{"name": "registry"}},
		"webhooks":          values{"excludedNamespaces": []any{"gpu-operator"}, "claims": values{"failurePolicy": "Fail"}},
		"controller":        values{"mode": "supplement", "replicaCount": 2},
		"priorityClassName": "system-cluster-critical",
		"nodeSelector":      values{"kubernetes.io/os": "linux"},
		"tolerations":       []any{values{"key": "a", "operator": "Exists"}},
		"affinity":          values{"podAntiAffinity": values{}},
		"podAnnotations":    values{"example.com/a": "b"},
		"limits":            values{"devicesPerSlice": 10},
		"crds":              values{"keep": false},
	}
}
