package alerts

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/test/chart"
)

type values = map[string]any

const pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"

// rendered is the object of a kind and name that the chart has with all of its monitoring;
// nil if there is none.
func rendered(t *testing.T, kind, name string, more values) *unstructured.Unstructured {
	t.Helper()
	on := values{"enabled": true}
	room := []any{values{"class": "gpu", "devices": 8, "claims": 2}, values{"class": "nic.example.com", "claims": 5}}
	v := values{"certificates": values{"mode": "provided", "existingSecret": "tls", "caBundle": pem}, "controller": values{"capacityMetrics": true},
		"monitoring": values{"podMonitor": on, "alerts": values{"enabled": true, "classRoom": room}, "dashboard": on}}
	for key, value := range more {
		v[key] = value
	}
	objects, err := chart.Render(v, chart.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	return nil
}

// alerts are the rules of the chart's PrometheusRule as Prometheus reads them, by name.
func alerts(t *testing.T, more values) map[string]rulefmt.Rule {
	t.Helper()
	object := rendered(t, "PrometheusRule", "dra-steward", more)
	if object == nil {
		t.Fatal("the chart has no PrometheusRule")
	}
	text, err := yaml.Marshal(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	all := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = rule
		}
	}
	return all
}

// A panel is the part of a panel of Grafana that we look at.
type panel struct {
	ID      int
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	object := rendered(t, "ConfigMap", "dra-steward-dashboard", nil)
	if object == nil {
		t.Fatal("the chart has no dashboard")
	}
	text, _, err := unstructured.NestedString(object.Object, "data", "dra-steward.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Panels) < 10 {
		t.Fatalf("only %d panels", len(dashboard.Panels))
	}
	return dashboard.Panels
}
