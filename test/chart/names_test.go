package chart

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// knownNames are those that the chart carries.
func knownNames(t *testing.T) (names struct {
	Rules    []string
	Policies map[string][]string
}) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, "files/names.yaml"), &names); err != nil {
		t.Fatal(err)
	}
	return names
}

// withoutSchema renders the chart as helm does with --skip-schema-validation.
func withoutSchema(t *testing.T, v values) error {
	t.Helper()
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	capabilities, err := Options{}.capabilities(c)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := chartutil.ToRenderValuesWithSchemaValidation(c, with(v), chartutil.ReleaseOptions{Name: "a", Namespace: "b"}, capabilities, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Render(c, merged)
	return err
}

// TestUnknownNames: all names that exist are accepted at once, and each with one more letter is
// refused, with its place and the name that exists, where helm skips the schema. TestRefusedValues
// has the schema.
func TestUnknownNames(t *testing.T) {
	names := knownNames(t)
	rules, modes, parameters := values{}, values{"ACME-GPU-1": "deny"}, values{"ACME-GPU-1": values{"any": true}}
	for _, rule := range names.Rules {
		rules[rule] = values{"severity": "off"}
	}
	for code, known := range names.Policies {
		modes[code] = "audit"
		for _, name := range known {
			parameters[code] = values{name: nil}
		}
	}
	inNamespaces := values{"names": []any{"a"}, "modes": modes, "parameters": parameters}
	all := values{"rules": rules, "policies": values{"modes": modes, "parameters": parameters, "namespaces": []any{inNamespaces}}}
	if _, err := Render(with(all), Options{}); err != nil {
		t.Errorf("names that exist: %v", err)
	}
	for code, known := range names.Policies {
		refusesName(t, values{"policies": values{"modes": values{code + "9": "off"}}}, "policies.modes: ", code)
		for _, name := range known {
			refusesName(t, values{"policies": values{"parameters": values{code: values{name + "x": 1}}}}, "policies.parameters."+code+": ", name)
		}
	}
	for i, rule := range names.Rules {
		if i%10 == 0 { // a render takes a while
			refusesName(t, values{"rules": values{rule + "x": values{"severity": "off"}}}, "rules: ", rule)
		}
	}
}

func refusesName(t *testing.T, v values, place, near string) {
	t.Helper()
	err := withoutSchema(t, v)
	if err == nil || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), `did you mean "`+near+`"`) {
		t.Errorf("%v: %v; want a refusal at %s with the name %s", v, err, place, near)
	}
}
