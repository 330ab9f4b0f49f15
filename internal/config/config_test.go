package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/config"
)

const head = "apiVersion: dra-steward.io/v1alpha1\nkind: StewardConfiguration\n"

func TestParse(t *testing.T) {
	for _, test := range []struct{ name, text, problem string }{
		{"nothing decided", head, ""},
		{"JSON", `{"apiVersion": "dra-steward.io/v1alpha1", "kind": "StewardConfiguration"}`, ""},
		{"separator before", "---\n" + head, ""},
		{"empty", "", `apiVersion "", kind ""`},
		{"other kind", "apiVersion: v1\nkind: ConfigMap", `apiVersion "v1", kind "ConfigMap": must be`},
		{"other version", strings.Replace(head, "v1alpha1", "v1", 1), `must be "dra-steward.io/v1alpha1"`},
		{"unknown field", head + "limits: {taintPerDevice: 3}", `unknown field "limits.taintPerDevice"`},
		{"other case", head + "Limits: {taintsPerDevice: 3}", `unknown field "Limits"`},
		{"twice", head + "limits: {taintsPerDevice: 3, taintsPerDevice: 4}", "taintsPerDevice"},
		{"text for a number", head + "limits: {taintsPerDevice: three}", "taintsPerDevice"},
		{"fraction", head + "limits: {taintsPerDevice: 1.5}", "1.5"},
		{"no duration", head + "defaults: {timeAddedWindow: soon}", `"soon"`},
		{"duration without unit", head + "defaults: {timeAddedWindow: 5}", "number"},
		{"two documents", head + "---\nlimits: {taintsPerDevice: 3}", "one document"},
		{"version without quotes", head + "lint: {kubernetesVersion: 1.36}", "kubernetesVersion"},
		{"unknown field of lint", head + "lint: {skipPath: [charts]}", `unknown field "lint.skipPath"`},
		{"no YAML", "limits: [", "yaml"},
		{"a list", "- limits", "array"},
	} {
		t.Run(test.name, func(t *testing.T) {
			switch _, err := config.Parse([]byte(test.text)); {
			case test.problem == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)):
				t.Errorf("got %v, want an error with %s", err, test.problem)
			}
		})
	}
}

// TestRoundTrip: what the types say is what the file says.
func TestRoundTrip(t *testing.T) {
	want := v1alpha1.StewardConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.ConfigurationKind},
		Limits:   v1alpha1.Limits{DevicesPerSlice: 10, TolerationsPerRequest: 2},
		Defaults: v1alpha1.Defaults{
			Finalizer:       v1alpha1.FinalizerRepair,
			TimeAddedWindow: &metav1.Duration{Duration: 3 * time.Second},
		},
		Lint: v1alpha1.Lint{
			KubernetesVersion: "1.36", FeatureGates: map[string]bool{"DRADeviceTaints": false},
			SkipPaths: []string{"charts/*/templates"}, SkipRules: []string{"deprecated-version"},
		},
	}
	data, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Parse(data)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	if c, err := config.Load(""); err != nil || !reflect.DeepEqual(c, v1alpha1.StewardConfiguration{}) {
		t.Errorf("no file: %v, %v", c, err)
	}
	if _, err := config.Load(t.TempDir() + "/missing.yaml"); err == nil || !strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + "limits: {taintsPerDevice: 3}")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := config.Parse([]byte(text)); err == nil && c.Kind != v1alpha1.ConfigurationKind {
			t.Errorf("accepted: %v", c)
		}
	})
}
