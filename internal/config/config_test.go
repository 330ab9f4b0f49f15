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
		{"empty", "", `site.yaml: nothing in it; it begins with "apiVersion: dra-steward.io/v1alpha1"`},
		{"other kind", "apiVersion: v1\nkind: ConfigMap", `apiVersion "v1", kind "ConfigMap": must be`},
		{"other version", strings.Replace(head, "v1alpha1", "v1", 1), `must be "dra-steward.io/v1alpha1"`},
		{"unknown field", head + "limits: {taintPerDevice: 3}", `site.yaml:3:10: limits.taintPerDevice: unknown field: did you mean "taintsPerDevice"?`},
		{"other case", head + "Limits: {taintsPerDevice: 3}", `site.yaml:3:1: Limits: unknown field: did you mean "limits"?`},
		{"twice", head + "limits: {taintsPerDevice: 3, taintsPerDevice: 4}", "site.yaml:3:30: limits.taintsPerDevice: duplicate key"},
		{"text for a number", head + "limits: {taintsPerDevice: three}", `site.yaml:3:10: limits.taintsPerDevice: must be a whole number of at most 64 bits, not the string "three"`},
		{"fraction", head + "limits: {taintsPerDevice: 1.5}", "1.5"},
		{"no duration", head + "defaults: {timeAddedWindow: soon}", `"soon"`},
		{"duration without unit", head + "defaults: {timeAddedWindow: 5}", "site.yaml:3:12: defaults.timeAddedWindow: must be a duration such as 1m30s, not the number 5"},
		{"two documents", head + "---\nlimits: {taintsPerDevice: 3}", "site.yaml:4:1: a second document"},
		{"version without quotes", head + "lint: {kubernetesVersion: 1.36}", "kubernetesVersion"},
		{"unknown field of lint", head + "lint: {skipPath: [charts]}", `site.yaml:3:8: lint.skipPath: unknown field: did you mean "skipPaths"?`},
		{"no YAML", "limits: [", "site.yaml:1"},
		{"a list", "- limits", "site.yaml:1:1: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			switch _, err := config.Parse("site.yaml", []byte(test.text)); {
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
		Server:  v1alpha1.Server{KubernetesVersion: "1.36", FeatureGates: map[string]bool{"DRADeviceTaints": false}},
		Drivers: map[string]v1alpha1.Driver{"gpu.example.com": {Users: []string{"a"}, Groups: []string{"b"}}},
		Exemptions: []v1alpha1.Exemption{{Rules: []string{"*"}, Namespaces: []string{"ml"}, Users: []string{"a"}, Groups: []string{"b"}, Reason: "because",
			Expires: metav1.NewTime(time.Date(2026, 12, 31, 0, 0, 0, 0, time.Local))}},
		SystemUsers: []string{"system:kube-scheduler"},
		Lint: v1alpha1.Lint{
			KubernetesVersion: "1.36", FeatureGates: map[string]bool{"DRADeviceTaints": false},
			SkipPaths: []string{"charts/*/templates"}, SkipRules: []string{"deprecated-version"},
		},
	}
	data, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Parse("site.yaml", data)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if diff := cmp.Diff(want, got.StewardConfiguration); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	if c, err := config.Load(""); err != nil || !reflect.DeepEqual(c.StewardConfiguration, v1alpha1.StewardConfiguration{}) {
		t.Errorf("no file: %v, %v", c, err)
	}
	if _, err := config.Load(t.TempDir() + "/missing.yaml"); err == nil || !strings.Contains(err.Error(), "missing.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + "limits: {taintsPerDevice: 3}")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := config.Parse("site.yaml", []byte(text)); err == nil && c.Kind != v1alpha1.ConfigurationKind {
			t.Errorf("accepted: %v", c)
		}
	})
}
