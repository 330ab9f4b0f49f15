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
