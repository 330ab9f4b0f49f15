package chart

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestArtifactHub: what Artifact Hub shows of the types is what the chart installs.
func TestArtifactHub(t *testing.T) {
	c, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	type shown struct{ Kind, Version, Name, DisplayName, Description string }
	var all []shown
	if err := yaml.UnmarshalStrict([]byte(c.Metadata.Annotations["artifacthub.io/crds"]), &all); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, one := range all {
		if one.DisplayName == "" || one.Description == "" {
			t.Errorf("%s has no name or description", one.Kind)
		}
		got = append(got, one.Name+" "+one.Kind+" "+one.Version)
	}
	objects, err := Render(with(nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			want = append(want, crd.Name+" "+crd.Spec.Names.Kind+" "+version.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Chart.yaml shows\n%q\nthe chart installs\n%q", got, want)
	}
}
