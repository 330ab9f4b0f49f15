package release_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/test/chart"
)

// The module of the Prometheus Operator, whose definitions are in example/, with its sum.
const (
	operator    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	operatorSum = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)

// definition returns a definition of the Prometheus Operator.
func definition(t *testing.T, plural string) *unstructured.Unstructured {
	t.Helper()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", operator)
	download.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := download.Output()
	if err != nil {
		t.Fatalf("%s: %v %s", download, err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil || module.Sum != operatorSum {
		t.Fatalf("%s has the sum %s, want %s (%v)", operator, module.Sum, operatorSum, err)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	return crd
}

// serveMonitoring installs the types of the Prometheus Operator, for all tests.
func serveMonitoring(t *testing.T, c client.Client) {
	t.Helper()
	for _, plural := range []string{"podmonitors", "servicemonitors", "prometheusrules"} {
		crd := definition(t, plural)
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), crd)); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		eventually(t, kind+" is served", func(context.Context) (bool, error) {
			_, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: kind}, "v1")
			return err == nil, nil
		})
	}
}

// TestMonitoringObjects lets the API server hold what the chart renders for the Prometheus
// Operator against that operator's own definitions; a misspelt field is an error.
func TestMonitoringObjects(t *testing.T) {
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	serveMonitoring(t, c)
	labels := values{"labels": values{"release": "prometheus"}}
	on := func(more values) values {
		for key, value := range labels {
			more[key] = value
		}
		more["enabled"] = true
		return more
	}
	all, err := chart.Render(with(withScheduler(values{"scheduler": values{"enabled": true},
		"monitoring": values{"podMonitor": on(values{"interval": "15s"}), "serviceMonitor": on(values{}), "alerts": on(values{}), "dashboard": on(values{})}})),
		chart.Options{Namespace: metav1.NamespaceDefault, KubeVersion: cluster.Version()})
	if err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	seen := map[string]int{}
	for _, object := range all {
		if object.GetAPIVersion() != "monitoring.coreos.com/v1" {
			continue
		}
		seen[object.GetKind()]++
		if err := strict.Create(t.Context(), object.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", object.GetKind(), err)
		}
		misspelt := object.DeepCopy()
		if err := unstructured.SetNestedField(misspelt.Object, "x", "spec", "selektor"); err != nil {
			t.Fatal(err)
		}
		if err := strict.Create(t.Context(), misspelt, client.DryRunAll); err == nil {
			t.Errorf("%s: a field that it does not have passes", object.GetKind())
		}
	}
	if seen["PodMonitor"] != 2 || seen["ServiceMonitor"] != 2 || seen["PrometheusRule"] != 1 {
		t.Errorf("the chart renders %v", seen)
	}
}
