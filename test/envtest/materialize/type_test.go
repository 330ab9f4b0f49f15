package materialize_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/test/chart/controller"
)

// TestTypeDeleted: the CustomResourceDefinition of patches, and with it each patch, is deleted, and the webhook has read none since
// its start. It takes the values back then. While the type exists and is not served, it keeps them.
func TestTypeDeleted(t *testing.T) {
	s := newSite(t, "materialize", quick)
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	definitions := untyped.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const definition = v1alpha1.ResourceSlicePatchResource + "." + v1alpha1.Group
	model := `{attributes: {` + s.driver + `/model: {string: z}}}`
	s.patch("model", model)
	s.publish(one(device("a", "x")))
	s.shows("a: model=z")
	s.quiet()

	args, err := controller.Install(t.Context(), cluster, shared.values())
	if err != nil {
		t.Fatal(err)
	}
	shared.shut(t)
	shared.untyped = true
	t.Cleanup(func() {
		shared.shut(t)
		shared.untyped = false
	})
	hide := []byte(`[{"op": "replace", "path": "/spec/versions/0/served", "value": false}]`)
	if _, err := definitions.Patch(t.Context(), definition, types.JSONPatchType, hide, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("patches are not served", func(ctx context.Context) (bool, error) {
		_, err := s.patches.List(ctx, metav1.ListOptions{})
		return apierrors.IsNotFound(err), nil
	})
	shared.openWebhook(t)
	if shared.steward, err = controller.Start(t.Context(), append(args, quick)); err != nil {
		t.Fatal(err)
	}
	<-time.After(25 * time.Second) // the webhook asks for the type twice, and the controller writes the slice all the time
	if got := describe(s.slices()); len(got) != 1 || got[0] != "a: model=z" {
		t.Fatalf("the slices show %q while the type is not served", got)
	}

	if err := definitions.Delete(t.Context(), definition, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.shows("a: model=x")
	s.stays("a: model=x")

	shared.untyped = false
	if _, err := controller.Install(t.Context(), cluster, shared.values()); err != nil {
		t.Fatal(err)
	}
	s.patch("model", model)
	s.shows("a: model=z")
}

// eventually waits until something is so.
func (s *site) eventually(what string, is func(context.Context) (bool, error)) {
	s.t.Helper()
	if err := wait.PollUntilContextTimeout(s.t.Context(), 100*time.Millisecond, 3*time.Minute, true, is); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}
