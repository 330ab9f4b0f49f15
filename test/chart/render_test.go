package chart

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"

	"github.com/dra-steward/dra-steward/charts"
)

// everything sets every value that is not set by default.
func everything() values {
	return with(values{
		"fullnameOverride": "guard",
		"replicaCount":     3,
		"image":            values{"digest": "sha256:" + strings.Repeat("a", 64), "pullPolicy": "Always"},
		"imagePullSecrets": []any{values{"name": "registry"}},
		"serviceAccount":   values{"name": "guard-account"},
		"limits": values{"devicesPerSlice": 10, "devicesPerAdvancedSlice": 10, "attributesAndCapacitiesPerDevice": 1,
			"attributeValuesPerDevice": 1, "taintsPerDevice": 1, "tolerationsPerRequest": 1,
			"requestsPerClaim": 1, "alternativesPerRequest": 1, "devicesPerClaim": 1},
		"defaults": values{"finalizer": "repair", "timeAddedWindow": "0s"},
		"liveData": values{"enabled": false},
		"guard": values{"enabled": false, "mode": "warn", "onError": "warn",
			"thresholds": values{"pods": 1, "namespaces": 2, "percent": 3}},
		"forceDeletion": values{"enabled": false, "users": []any{"jane"}, "groups": []any{"gpu-on-call"}},
		"driverPods": values{"enabled": false, "users": []any{"jane"}, "groups": []any{"gpu-on-call"}, "deadline": "1h", "pods": []any{
			values{"namespace": "gpu-operator", "labels": values{"app": "gpu-driver"}, "names": "gpu-driver-*", "drivers": []any{"gpu.example.com"}}}},
		"policies": values{"configMaps": false, "modes": values{"DRA-TOL-002": "deny"}},
		"rules":    values{"claim-devices-max": values{"severity": "warning"}},
		"exemptions": []any{values{"rules": []any{"claim-empty"}, "namespaces": []any{"ml"}, "users": []any{"jane"}, "groups": []any{"admins"},
			"reason": "until the queue is split", "expires": "2099-12-31T00:00:00Z"}},
		"systemUsers":     []any{"system:kube-scheduler"},
		"protectedLabels": values{"keys": []any{"example.com/tier"}, "users": []any{"root"}, "groups": []any{"admins"}},
		"drivers":         values{"gpu.example.com": values{"users": []any{"system:serviceaccount:gpu:driver"}, "groups": []any{"drivers"}}},
		"server":          values{"kubernetesVersion": "1.36", "featureGates": values{"DRADeviceTaints": false}},
		"opaqueParameters": values{"schemas": []any{values{"x-dra-driver": "gpu.acme.example.com", "type": "object",
			"properties": values{"apiVersion": values{"const": "acme.example.com/v1"}, "kind": values{"const": "GPUConfig"}}}}},
		"webhooks": values{
			"excludedNamespaces": []any{"gpu-operator"},
			"claims":             values{"failurePolicy": "Fail", "timeoutSeconds": 1},
			"templates":          values{"failurePolicy": "Fail", "timeoutSeconds": 1},
			"guard":              values{"timeoutSeconds": 1},
		},
		"controller": values{"mode": "full", "actSince": "always", "replicaCount": 2, "emptyEffect": "NoSchedule",
			"tolerationStart": "MaxOfTaintAndAllocation", "evictionsPerSecond": 5, "evictionsPerSecondAndNamespace": 0.5},
		"log":                  values{"level": "debug", "format": "text"},
		"tracing":              values{"endpoint": "http://collector.tracing:4318", "sampled": 0.5},
		"shutdownDelaySeconds": 10,
		"priorityClassName":    "system-cluster-critical",
		"nodeSelector":         values{"kubernetes.io/os": "linux"},
		"tolerations":          []any{values{"key": "a", "operator": "Exists"}},
		"affinity":             values{"podAntiAffinity": values{}},
		"podAnnotations":       values{"example.com/a": "b"},
	})
}

func TestGolden(t *testing.T) {
	for name, v := range map[string]values{"minimal": with(nil), "everything": everything()} {
		t.Run(name, func(t *testing.T) {
			files, err := Manifests(v, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, file := range slices.Sorted(maps.Keys(files)) {
				if strings.HasPrefix(file, "templates/crd-") {
					continue // generated, see TestTypesOfOurOwn
				}
				got.WriteString("# " + file + "\n" + strings.TrimSpace(files[file]) + "\n---\n")
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(want) {
				t.Errorf("%s differs from what is rendered; look at the difference after: go test -update", golden)
			}
		})
	}
}

// TestTyped renders many values for every minor that is supported and decodes each
// object strictly.
func TestTyped(t *testing.T) {
	for name, v := range map[string]values{
		"minimal":       with(nil),
		"everything":    everything(),
		"one replica":   with(values{"replicaCount": 1}),
		"no budget":     with(values{"podDisruptionBudget": values{"enabled": false}}),
		"no account":    with(values{"serviceAccount": values{"create": false}}),
		"finalizer off": with(values{"defaults": values{"finalizer": "off"}}),
		"no resources":  with(values{"resources": nil}),
	} {
		for _, version := range []string{"1.34.0", "v1.35.4-gke.1", "1.36.3", "v1.37.2"} {
			t.Run(name+"/"+version, func(t *testing.T) {
				r := render(t, v, Options{KubeVersion: version})
				if len(r.objects) < 6 {
					t.Errorf("%d objects, too few", len(r.objects))
				}
			})
		}
	}
}

// TestTypesOfOurOwn: the API types are installed and stay, unless the values say
// otherwise.
func TestTypesOfOurOwn(t *testing.T) {
	r := render(t, with(nil), Options{})
	const policy = "helm.sh/resource-policy"
	var names []string
	for _, kind := range r.types {
		names = append(names, kind.Name)
		if kind.Labels["app.kubernetes.io/name"] != "dra-steward" {
			t.Errorf("%s has the labels %v", kind.Name, kind.Labels)
		}
		if kind.Annotations[policy] != "keep" {
			t.Errorf("%s: without the annotation an uninstall deletes every object", kind.Name)
		}
	}
	if want := []string{"devicedrains.dra-steward.io", "devicereactions.dra-steward.io", "devicerolls.dra-steward.io", "resourceslicepatches.dra-steward.io"}; !slices.Equal(names, want) {
		t.Errorf("got the types %v, want %v", names, want)
	}
	for _, kind := range render(t, with(values{"crds": values{"keep": false}}), Options{}).types {
		if kind.Annotations[policy] != "" {
			t.Errorf("crds.keep false: %s must not have the annotation", kind.Name)
		}
	}
	if r := render(t, with(values{"crds": values{"install": false}}), Options{}); len(r.types) != 0 {
		t.Error("crds.install false: no types must be rendered")
	}
}

// TestSecondVersion: v1beta1 has the schema of v1alpha1 and is converted by the API server alone; one
// of both is stored.
func TestSecondVersion(t *testing.T) {
	for mode, want := range map[string][]string{"": {"v1alpha1 stored"}, "served": {"v1beta1", "v1alpha1 stored"}, "stored": {"v1beta1 stored", "v1alpha1"}} {
		for _, kind := range render(t, with(values{"crds": values{"v1beta1": mode}}), Options{}).types {
			var got []string
			for _, version := range kind.Spec.Versions {
				text := version.Name
				if version.Storage {
					text += " stored"
				}
				got = append(got, text)
				if !version.Served || !reflect.DeepEqual(version.Schema, kind.Spec.Versions[0].Schema) || !reflect.DeepEqual(version.Subresources, kind.Spec.Versions[0].Subresources) {
					t.Errorf("crds.v1beta1 %q: %s %s is not served, or has another schema", mode, kind.Name, version.Name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("crds.v1beta1 %q: %s has %q, want %q", mode, kind.Name, got, want)
			}
			if conversion := kind.Spec.Conversion; mode != "" && (conversion == nil || conversion.Strategy != "None") {
				t.Errorf("crds.v1beta1 %q: %s has the conversion %v", mode, kind.Name, conversion)
			}
		}
	}
}

func TestOptionalObjects(t *testing.T) {
	if r := render(t, with(values{"replicaCount": 1}), Options{}); r.budget != nil {
		t.Error("one replica: a disruption budget would block node drains")
	}
	if r := render(t, with(nil), Options{}); r.budget == nil || r.budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("two replicas: no disruption budget with maxUnavailable 1")
	}
	r := render(t, with(values{"serviceAccount": values{"create": false}}), Options{})
	if r.serviceAccount != nil || r.deployment.Spec.Template.Spec.ServiceAccountName != "default" {
		t.Error("serviceAccount.create false: must use the account default and make none")
	}
}

func TestOldClusterIsRefused(t *testing.T) {
	_, err := Render(with(nil), Options{KubeVersion: "1.33.5"})
	if err == nil || !strings.Contains(err.Error(), ">=1.34.0-0") {
		t.Errorf("got %v, want an error that names the oldest version", err)
	}
}

// TestLint is helm lint --strict.
func TestLint(t *testing.T) {
	dir := t.TempDir()
	embedded, err := fs.Sub(charts.FS, charts.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, embedded); err != nil {
		t.Fatal(err)
	}
	version, err := chartutil.ParseKubeVersion("1.37.0")
	if err != nil {
		t.Fatal(err)
	}
	linter := lint.AllWithKubeVersion(dir, with(nil), "dra-steward", version)
	for _, message := range linter.Messages {
		if message.Severity >= support.WarningSev {
			t.Error(message)
		}
	}
}
