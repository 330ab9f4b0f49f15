package drain_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/manifest/example"
	"github.com/dra-steward/dra-steward/pkg/validate"
)

// TestSchema: the API server accepts and refuses the examples of the rules that repeat the schema of
// DeviceDrains, DeviceReactions and DeviceRolls, as these rules do.
func TestSchema(t *testing.T) {
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	resources := map[string]string{v1alpha1.DeviceDrainKind: v1alpha1.DeviceDrainResource, v1alpha1.DeviceReactionKind: v1alpha1.DeviceReactionResource, v1alpha1.DeviceRollKind: v1alpha1.DeviceRollResource}
	tried := map[string]int{}
	for _, rule := range validate.Rules() {
		if rule.Category != validate.Mirror || len(rule.Kinds) != 1 || resources[rule.Kinds[0]] == "" {
			continue
		}
		e, err := example.Load(validate.Examples, rule.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range e.Cases {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(one.Object, &object.Object); err != nil {
				t.Fatalf("%s/%s: %v", rule.ID, one.Name, err)
			}
			if one.Old != nil || resources[object.GetKind()] == "" {
				continue
			}
			api := untyped.Resource(v1alpha1.GroupVersion().WithResource(resources[object.GetKind()]))
			_, err := api.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			if refused := strings.Contains(one.Want, "error: "); refused != (err != nil) {
				t.Errorf("%s/%s: the rule refuses is %t, and the API server says %v", rule.ID, one.Name, refused, err)
			}
			tried[object.GetKind()]++
		}
	}
	if tried[v1alpha1.DeviceDrainKind] < 10 || tried[v1alpha1.DeviceReactionKind] < 10 || tried[v1alpha1.DeviceRollKind] < 10 {
		t.Errorf("tried %v", tried)
	}
}
