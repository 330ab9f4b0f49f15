// Package patches_test holds ResourceSlicePatches against a real API server: what it stores and refuses, the view of
// devices that package tracker makes of them, and their status.
package patches_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
	"github.com/dra-steward/dra-steward/test/chart"
)

// installed installs the type as the chart ships it, and returns what uses it.
func installed(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	files, err := chart.Manifests(nil, chart.Options{KubeVersion: cluster.Version()})
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(manifest, []byte(files["templates/crd-resourceslicepatches.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "", "apply", "-f", manifest)
	kubectl(t, "", "wait", "--for=condition=Established", "--timeout=60s", "crd/resourceslicepatches.dra-steward.io")
	c, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.ResourceSlicePatchResource))
}

// kubectl runs the real one and returns what it writes.
func kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func tryKubectl(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	command := cluster.Kubectl(t.Context(), args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// manifest is a patch with the YAML of spec.devices.
func manifest(name, devices string) string {
	return "apiVersion: dra-steward.io/v1alpha1\nkind: ResourceSlicePatch\nmetadata: {name: " + name + "}\nspec: {devices: " + devices + "}\n"
}

func TestServerTakesAndRefuses(t *testing.T) {
	patches := installed(t)
	many := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, `gpu.example.com/a`+strings.Repeat("x", i)+`: {int: 1}`)
		}
		return strings.Join(all, ", ")
	}
	for name, tc := range map[string]struct{ devices, refused string }{
		"empty":              {`{}`, ""},
		"everything":         {`{filter: {deviceClassName: gpu, driver: gpu.example.com, pool: a/b, device: gpu-0, selectors: [{cel: {expression: "true"}}]}, priority: -5, attributes: {gpu.example.com/a: {"null": {}}, gpu.example.com/b: {version: 1.2.3}, gpu.example.com/c: {strings: [x]}}, capacity: {gpu.example.com/m: {value: 0}, gpu.example.com/n: {value: 8Gi, requestPolicy: {default: 1Gi, validRange: {min: 1Gi}}}}}`, ""},
		"30 and 2":           {`{attributes: {` + many(30) + `}, capacity: {gpu.example.com/m: {value: 1}, gpu.example.com/n: {value: 1}}}`, ""},
		"32 and 1":           {`{attributes: {` + many(32) + `}, capacity: {gpu.example.com/m: {value: 1}}}`, "must have at most 32 attributes and capacities together"},
		"33":                 {`{attributes: {` + many(33) + `}}`, "must have at most 32 items"},
		"two values":         {`{attributes: {gpu.example.com/a: {int: 1, bool: true}}}`, "must have exactly one of int"},
		"value and null":     {`{attributes: {gpu.example.com/a: {int: 1, "null": {}}}}`, "must have exactly one of int"},
		"no value":           {`{attributes: {gpu.example.com/a: {}}}`, "must have exactly one of int"},
		"empty list":         {`{attributes: {gpu.example.com/a: {ints: []}}}`, "a list must not be empty"},
		"long text":          {`{attributes: {gpu.example.com/a: {string: ` + strings.Repeat("x", 65) + `}}}`, "at most 64 bytes"},
		"no domain":          {`{attributes: {model: {int: 1}}}`, "must be fully qualified"},
		"capacity no domain": {`{capacity: {memory: {value: 1}}}`, "must be fully qualified"},
		"two slashes":        {`{attributes: {gpu.example.com/a/b: {int: 1}}}`, "must be fully qualified"},
		"upper case domain":  {`{attributes: {GPU.example.com/a: {int: 1}}}`, "must be fully qualified"},
		"long domain":        {`{attributes: {` + strings.Repeat("x", 64) + `/a: {int: 1}}}`, "must be fully qualified"},
		"long id":            {`{attributes: {gpu.example.com/` + strings.Repeat("x", 33) + `: {int: 1}}}`, "must be fully qualified"},
		"wrong type":         {`{attributes: {gpu.example.com/a: {int: one}}}`, "must be of type integer"},
		"wrong quantity":     {`{capacity: {gpu.example.com/m: {value: much}}}`, "spec.devices.capacity"},
		"no capacity value":  {`{capacity: {gpu.example.com/m: {}}}`, "Required value"},
		"selector, no cel":   {`{filter: {selectors: [{}]}}`, "every selector must have a CEL expression"},
		"33 selectors":       {`{filter: {selectors: [` + strings.Repeat(`{cel: {expression: "true"}},`, 33) + `]}}`, "Too many: 33"},
		"long expression":    {`{filter: {selectors: [{cel: {expression: "` + strings.Repeat("x", 10241) + `"}}]}}`, "at most 10240 bytes"},
		"empty driver":       {`{filter: {driver: ""}}`, "should be at least 1 chars long"},
		"long device":        {`{filter: {device: ` + strings.Repeat("x", 64) + `}}`, "may not be more than 63"},
		"no devices":         {`null`, "spec.devices"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(manifest("some", tc.devices)), &object.Object); err != nil {
				t.Fatal(err)
			}
			_, err := patches.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			switch {
			case tc.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("got %v, want an error with %q", err, tc.refused)
			}
		})
	}
}

// TestFullPatch stores the most that a patch can hold: the budget of the rules'
// cost is enough.
func TestFullPatch(t *testing.T) {
	patches := installed(t)
	attributes := map[string]any{}
	for i := range 32 {
		domain := strings.Repeat("a", 63)
		attributes[domain+"/"+strings.Repeat("b", i)+"c"] = map[string]any{"string": strings.Repeat("é", 32)}
	}
	selectors := slices.Repeat([]any{map[string]any{"cel": map[string]any{"expression": "true" + strings.Repeat(" ", 10236)}}}, 32)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.ResourceSlicePatchKind,
		"metadata": map[string]any{"name": "full"},
		"spec":     map[string]any{"devices": map[string]any{"attributes": attributes, "filter": map[string]any{"selectors": selectors}}},
	}}
	start := time.Now()
	if _, err := patches.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("created in %s", time.Since(start))
	if err := patches.Delete(t.Context(), "full", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestGenerationStatusAndColumns: a change of the spec counts, one of the status does
// not, and kubectl shows what the status says.
func TestGenerationStatusAndColumns(t *testing.T) {
	patches := installed(t)
	kubectl(t, manifest("shown", `{filter: {driver: gpu.example.com}, priority: 7, attributes: {gpu.example.com/a: {"null": {}}}}`), "create", "-f", "-")
	defer kubectl(t, "", "delete", "rsp", "shown")
	kubectl(t, "", "patch", "rsp", "shown", "--type=merge", "-p", `{"spec":{"devices":{"priority":8}}}`)
	kubectl(t, "", "patch", "rsp", "shown", "--subresource=status", "--type=merge", "-p",
		`{"status":{"matchedDevices":12,"conditions":[{"type":"Applied","status":"True","reason":"Applied","message":"","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":2}]}}`)
	stored, err := patches.Get(t.Context(), "shown", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stored.GetGeneration() != 2 {
		t.Errorf("generation %d, want 2", stored.GetGeneration())
	}
	out := strings.Fields(kubectl(t, "", "get", "rsp", "shown"))
	want := []string{"NAME", "DRIVER", "PRIORITY", "DEVICES", "APPLIED", "AGE", "shown", "gpu.example.com", "8", "12", "True"}
	if len(out) != len(want)+1 || !slices.Equal(out[:len(want)], want) {
		t.Errorf("kubectl get shows %q, want %q and the age", out, want)
	}
}

// TestBareNull is what a forgotten quote does in the real kubectl.
func TestBareNull(t *testing.T) {
	patches := installed(t)
	out, err := tryKubectl(t, manifest("bare", `{attributes: {gpu.example.com/a: {null: {}}}}`), "create", "-f", "-")
	if err == nil || !strings.Contains(out, "unsupported map key of type: %!s(<nil>)") {
		t.Fatalf("kubectl: %v\n%s", err, out)
	}
	kubectl(t, manifest("quoted", `{attributes: {gpu.example.com/a: {"null": {}}}}`), "create", "-f", "-")
	stored, err := patches.Get(t.Context(), "quoted", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, found, _ := unstructured.NestedMap(stored.Object, "spec", "devices", "attributes", "gpu.example.com/a", "null"); !found {
		t.Errorf("null is not stored: %v", stored.Object["spec"])
	}
	kubectl(t, "", "delete", "rsp", "quoted")
}

// TestFixedNull: what lint --fix makes of a null without quotes is what kubectl takes.
func TestFixedNull(t *testing.T) {
	installed(t)
	text, err := os.ReadFile("../../../docs/patches/bare-null.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "patch.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := tryKubectl(t, "", "create", "--dry-run=server", "-f", file); err == nil {
		t.Fatalf("kubectl takes it as it is: %s", out)
	}
	var out, problems bytes.Buffer
	if code := cli.Run(t.Context(), []string{"lint", "--fix", file}, cmdutil.Streams{Out: &out, Err: &problems}); code != cmdutil.ExitClean {
		t.Errorf("lint --fix: exit code %d\n%s%s", code, &out, &problems)
	}
	fixed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(string(text), "null: {} # take it away", `"null": {} # take it away`, 1); string(fixed) != want {
		t.Errorf("lint --fix wrote\n%s", fixed)
	}
	kubectl(t, "", "create", "--dry-run=server", "-f", file)
}
