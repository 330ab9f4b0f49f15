package drain_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestTypeDeleted deletes the CustomResourceDefinition, and with it all drains, beside the
// real garbage collector: it deletes a rule that a drain owns, but no cordon. Nor does a
// controller that finds the type created again. Each says how to lift it.
func TestTypeDeleted(t *testing.T) {
	s := newSiteAlone(t, "type", 1)
	untyped, err := dynamic.NewForConfig(cluster.Config())
	do(s, err)
	definitions := untyped.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const definition = v1alpha1.DeviceDrainResource + "." + v1alpha1.Group

	spec := v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{{Driver: s.driver, Pool: "node-0", Device: "gpu-0"}}}
	// The garbage collector learns of a type within half a minute, and is there from then on.
	s.drain("-first", spec)
	owned(s, "first", s.name+"-first")
	do(s, drains.Delete(t.Context(), s.name+"-first", metav1.DeleteOptions{}))
	gone := func(rule string) {
		t.Helper()
		s.eventually(rule+" is collected", func(ctx context.Context) (bool, error) {
			_, err := rules.Get(ctx, rule, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	}
	gone("first")
	s.eventually("the cordon of a drain that a user deletes is lifted", func(ctx context.Context) (bool, error) {
		return len(s.cordon(ctx, s.name+"-first")) == 0, nil
	})

	name := s.drain("", spec)
	s.eventually("it is cordoned", func(ctx context.Context) (bool, error) { return len(s.cordon(ctx, name)) == 1, nil })
	rule := s.cordon(t.Context(), name)[0]
	owned(s, "second", name)
	do(s, definitions.Delete(t.Context(), definition, metav1.DeleteOptions{}))
	gone("second")
	kept := func(why string) {
		t.Helper()
		s.eventually("an event that says: "+why, func(ctx context.Context) (bool, error) {
			list, err := c.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=CordonKept,involvedObject.name=" + rule.GetName()})
			for i := range list.Items {
				if m := list.Items[i].Message; strings.Contains(m, why) && strings.Contains(m, "kubectl delete devicetaintrule "+rule.GetName()) {
					return true, nil
				}
			}
			return false, err
		})
		if list := s.cordon(t.Context(), name); len(list) != 1 || list[0].GetUID() != rule.GetUID() || list[0].GetDeletionTimestamp() != nil {
			t.Fatalf("the cordon is %v", list)
		}
	}
	kept("deleted: its devices stay out of use")
	s.eventually("the type is gone", func(ctx context.Context) (bool, error) {
		_, err := definitions.Get(ctx, definition, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	do(s, steward.kill())
	do(s, s.create(install()))
	do(s, steward.start())
	s.Cleanup(func() {
		if log, err := os.ReadFile(steward.log()); s.Failed() {
			s.Logf("the log of the controller: %s %v", log, err)
		}
	})
	kept("was deleted and created again")
	do(s, rules.Delete(t.Context(), rule.GetName(), metav1.DeleteOptions{}))
}

// owned makes a rule that a drain owns by an owner reference.
func owned(s site, name, drain string) {
	s.Helper()
	d := s.get(drain, s.Context())
	rule := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": cluster.DeviceTaintRules().GroupVersion().String(), "kind": "DeviceTaintRule",
		"metadata": map[string]any{"name": name, "ownerReferences": []any{map[string]any{
			"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.DeviceDrainKind, "name": d.Name, "uid": string(d.UID)}}},
		"spec": map[string]any{"deviceSelector": map[string]any{"driver": fmt.Sprint(s.driver, ".nowhere")}, "taint": map[string]any{"key": "example.com/owned", "effect": "NoSchedule"}},
	}}
	do(s, s.create(rules.Create(s.Context(), rule, metav1.CreateOptions{})))
}
