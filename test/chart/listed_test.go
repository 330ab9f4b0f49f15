package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestListedValues sets each value that charts have by convention: all are in the schema and
// change what is rendered.
func TestListedValues(t *testing.T) {
	all := Listed()
	plain := renderedText(t, nil)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if renderedText(t, all[name]) == plain {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// TestListedValuesAreAll: a value that webhook, controller, node agents and scheduler all have is
// listed for each of them, and so are the budgets.
func TestListedValuesAreAll(t *testing.T) {
	listed := Listed()
	top := schemaOf(t).Properties
	for name := range top {
		common := !slices.ContainsFunc(optional(), func(component string) bool { return top[component].Properties[name] == nil })
		if _, found := listed[name]; common && !found && name != "enabled" {
			t.Errorf("all components have the value %s: add it to perComponent", name)
		}
	}
	for _, component := range optional() {
		if _, found := listed[component+".podDisruptionBudget"]; found != (top[component].Properties["podDisruptionBudget"] != nil) {
			t.Errorf("%s.podDisruptionBudget: listed %t", component, found)
		}
	}
}

// renderedText renders all components with more values.
func renderedText(t *testing.T, more values) string {
	t.Helper()
	objects, err := Render(with(AllComponents(more)), Options{})
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
