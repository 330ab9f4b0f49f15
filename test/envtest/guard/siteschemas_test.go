package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestSchemasOfConfigMaps: the schema of a driver's parameters comes into force by a
// ConfigMap, together with policies. What is no schema is refused at once.
func TestSchemasOfConfigMaps(t *testing.T) {
	_, admin, _ := guarded(t, nil)
	maps := admin.CoreV1().ConfigMaps(release)
	t.Cleanup(func() { _ = maps.Delete(context.WithoutCancel(t.Context()), "site", metav1.DeleteOptions{}) })
	const schema = `{"x-dra-driver": "fpga.site.example.com", "type": "object", "properties": {
  "apiVersion": {"const": "site.example.com/v1"}, "kind": {"const": "Config"}, "mode": {"enum": ["fast", "safe"]}}}`
	stored, err := maps.Create(t.Context(), policyMap(map[string]string{"fpga.schema.json": schema, "a.rego": sitePolicy(1, "one")}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, mode string) error {
		configured := claim("configured")
		configured.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
			Driver: "fpga.site.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"apiVersion": "site.example.com/v1", "kind": "Config", "mode": "` + mode + `"}`)}}}}}
		_, err := admin.ResourceV1().ResourceClaims(namespace).Create(ctx, configured, dryRun)
		return err
	}
	eventually(t, "the schema is in force", func(ctx context.Context) (bool, error) { return write(ctx, "quick") != nil, nil })
	wantDenied(t, write(t.Context(), "quick"), "spec.devices.config[0].opaque.parameters.mode", `"fast", "safe"`, "parameters-value")
	if err := write(t.Context(), "fast"); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"{\n  \"x-dra-driver\": }":                   "ConfigMap dra-steward/site/fpga.schema.json:2:19: no JSON",
		`{"type": "object"}`:                         "x-dra-driver is missing",
		strings.Replace(schema, "const", "konst", 1): "properties.apiVersion.const",
	} {
		broken := stored.DeepCopy()
		broken.Data["fpga.schema.json"] = text
		_, err := maps.Update(t.Context(), broken, metav1.UpdateOptions{})
		t.Log(err)
		wantDenied(t, err, want, "the current ones stay in force")
	}
	stored.Data["fpga.schema.json"] = strings.Replace(schema, "safe", "quick", 1)
	stored.Data["a.rego"] = sitePolicy(1, "two")
	if _, err := maps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the changed schema is in force", func(ctx context.Context) (bool, error) { return write(ctx, "quick") == nil, nil })
}

// TestParametersOfTheSite: an edit of a policy whose new parameters do not fit what the
// site has set is refused at once.
func TestParametersOfTheSite(t *testing.T) {
	_, admin, _ := guarded(t, map[string]any{"policies": map[string]any{"parameters": map[string]any{"SITE-001": map[string]any{"keys": []any{"a"}}}}})
	maps := admin.CoreV1().ConfigMaps(release)
	t.Cleanup(func() { _ = maps.Delete(context.WithoutCancel(t.Context()), "site", metav1.DeleteOptions{}) })
	with := func(kind, fallback string) string {
		return strings.Replace(sitePolicy(1, "one"), "package", fmt.Sprintf("#   parameters: {type: object, additionalProperties: false, properties: {keys: {type: %s, default: %s, description: Keys.}}}\npackage", kind, fallback), 1)
	}
	stored, err := maps.Create(t.Context(), policyMap(map[string]string{"a.rego": with("array", "[]")}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored.Data["a.rego"] = with("string", `""`)
	_, err = maps.Update(t.Context(), stored, metav1.UpdateOptions{})
	t.Log(err)
	wantDenied(t, err, " config.yaml:", "parameters.SITE-001", "got array, want string", "the current ones stay in force")
}
