package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// perComponent are the values that webhook, controller, node agents and scheduler all have.
var perComponent = values{
	"podLabels": values{"example.com/a": "b"}, "priorityClassName": "important",
	"serviceAccount": values{"annotations": values{"example.com/a": "b"}},
	"tolerations":    []any{values{"key": "a", "operator": "Exists"}}, "affinity": values{"nodeAffinity": values{}},
	"resources": values{"limits": values{"memory": "123Mi"}}, "extraArgs": []any{"--extra"},
	"extraEnv": []any{values{"name": "A", "value": "b"}}, "extraVolumes": []any{values{"name": "a", "emptyDir": values{}}},
	"topologySpreadConstraints": []any{values{"maxSkew": 3, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}},
}

// TestListedValues sets each value that charts have by convention: all are in the schema and
// change what is rendered.
func TestListedValues(t *testing.T) {
	monitor := values{"enabled": true}
	all := map[string]values{
		"nameOverride": {"nameOverride": "gpu"}, "commonLabels": {"commonLabels": values{"example.com/a": "b"}},
		"image.registry":            {"image": values{"registry": "a.example"}},
		"global.imageRegistry":      {"global": values{"imageRegistry": "a.example"}},
		"podDisruptionBudget":       {"podDisruptionBudget": values{"enabled": false}},
		"monitoring.serviceMonitor": {"monitoring": values{"serviceMonitor": monitor}},
		"monitoring.podMonitor":     {"monitoring": values{"podMonitor": monitor}},
		"networkPolicy.enabled":     {"networkPolicy": values{"enabled": true}},
		"rbac.aggregateToView":      {"rbac": values{"aggregateToView": false}},
		"rbac.oncall":               {"rbac": values{"oncall": false}},
		"crds.install":              {"crds": values{"install": false}},
		"crds.keep":                 {"crds": values{"keep": false}},
		"node.createNamespace":      {"node": values{"namespace": "agents", "createNamespace": true}},
		"monitoring.alerts.enabled": {"monitoring": values{"alerts": values{"enabled": true}}},
		"monitoring.dashboard":      {"monitoring": values{"dashboard": values{"enabled": true}}},
	}
	for name, value := range perComponent {
		all[name] = values{name: value}
		for _, component := range components[1:] {
			all[component+"."+name] = values{component: values{name: value}}
		}
	}
	plain := renderedText(t, nil)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if renderedText(t, all[name]) == plain {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// renderedText renders all components with more values.
func renderedText(t *testing.T, more values) string {
	t.Helper()
	v := everywhere(nil)
	for key, value := range more {
		if component, ok := v[key].(values); ok {
			maps.Copy(component, value.(values))
			continue
		}
		v[key] = value
	}
	objects, err := Render(with(v), Options{})
	if err != nil {
		t.Fatalf("%v: %v", more, err)
	}
	var text strings.Builder
	for _, object := range objects {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	return text.String()
}
