package release_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dra-steward/dra-steward/test/chart"
)

// TestListedValuesAreTaken: the API server takes, with strict validation, every object that a
// value which charts have by convention changes, for each component.
func TestListedValuesAreTaken(t *testing.T) {
	const namespace = "listed-dry-run"
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	serveMonitoring(t, c)
	for _, name := range []string{namespace, "agents"} {
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})); err != nil {
			t.Fatal(err)
		}
	}
	strict := client.WithFieldValidation(c, metav1.FieldValidationStrict)
	taken := map[string]bool{} // by JSON: most values leave most objects as they are
	take := func(what string, more values) {
		options := chart.Options{Namespace: namespace, KubeVersion: cluster.Version()}
		all, err := chart.Render(with(withScheduler(chart.AllComponents(more))), options)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		hooks, err := chart.Hooks(with(withScheduler(chart.AllComponents(more))), options)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for _, object := range append(all, hooks...) {
			text, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			if taken[string(text)] {
				continue
			}
			taken[string(text)] = true
			err = strict.Create(t.Context(), object, client.DryRunAll)
			if object.GetKind() == "Namespace" {
				err = client.IgnoreAlreadyExists(err)
			}
			if err != nil {
				t.Errorf("%s: %s %s: %v", what, object.GetKind(), object.GetName(), err)
			}
		}
	}
	take("all components", nil)
	listed := chart.Listed()
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		take(name, listed[name])
	}
}

// removes are the values that only leave objects out.
var removes = []string{"controller.podDisruptionBudget", "crds.install", "podDisruptionBudget", "rbac.aggregateToView",
	"rbac.oncall", "scheduler.podDisruptionBudget"}

// TestListedValuesAreInstalled: helm installs a release with all of these values, which leave
// nothing out, at once.
func TestListedValuesAreInstalled(t *testing.T) {
	c, err := client.New(cluster.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	serveMonitoring(t, c)
	v := withScheduler(chart.AllComponents(nil))
	for name, value := range chart.Listed() {
		if !slices.Contains(removes, name) {
			merge(v, value)
		}
	}
	merge(v, values{"uninstall": values{"enabled": false}, "crds": values{"keep": false}, "node": values{"namespace": "listed-agents"}})
	h := newHelm(t, "listed")
	released, err := h.install(current(t), with(v))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		h.must(h.uninstall())
		h.wantTypesGone()
	}()
	for _, object := range objects(t, released.Manifest) {
		if h.stored(object) == nil {
			t.Errorf("%s %s is not stored", object.GetKind(), object.GetName())
		}
	}
}

// merge sets the values of more in v.
func merge(v, more values) {
	for key, value := range more {
		own, nested := v[key].(values)
		if object, ok := value.(values); ok && nested {
			own = maps.Clone(own)
			merge(own, object)
			v[key] = own
			continue
		}
		v[key] = value
	}
}
