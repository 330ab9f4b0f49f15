package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestNulls sets each group, map and list of values.yaml to null, as "--set a=null" does: the chart renders without it, or
// the schema names it. No template fails in the middle.
func TestNulls(t *testing.T) {
	var defaults values
	if err := yaml.Unmarshal(read(t, "values.yaml"), &defaults); err != nil {
		t.Fatal(err)
	}
	for _, path := range groups(defaults, nil) {
		set := AllComponents(nil)
		for at, rest := set, path; ; at, rest = at[rest[0]].(values), rest[1:] {
			if len(rest) == 1 {
				at[rest[0]] = nil
				break
			}
			if at[rest[0]] == nil {
				at[rest[0]] = values{}
			}
		}
		name := strings.Join(path, ".")
		_, err := Render(set, Options{})
		if err != nil && !strings.Contains(err.Error(), "missing property '"+path[len(path)-1]+"'") {
			t.Errorf("%s=null: %v", name, err)
		}
	}
}

// groups are the paths of all maps and lists.
func groups(of values, above []string) (paths [][]string) {
	for name, value := range of {
		path := append(slices.Clone(above), name)
		switch value := value.(type) {
		case values:
			paths = append(append(paths, path), groups(value, path)...)
		case []any:
			paths = append(paths, path)
		}
	}
	return paths
}

// TestEarlierValues: a release that has set each value of an earlier chart is upgraded: what is renamed or removed is accepted.
func TestEarlierValues(t *testing.T) {
	earlier, err := filepath.Glob("testdata/values-*.yaml")
	if err != nil || len(earlier) == 0 {
		t.Fatalf("%v, %v", earlier, err)
	}
	for _, name := range earlier {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var set values
		if err := yaml.Unmarshal(data, &set); err != nil {
			t.Fatal(err)
		}
		if _, err := Render(set, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
