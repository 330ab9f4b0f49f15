package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// A rollSite has a driver with many devices on two nodes, of which pods hold some.
type rollSite struct {
	*testing.T
	c      kubernetes.Interface
	driver string
}

// newRollSite has pods in one namespace, as many on each node.
func newRollSite(t *testing.T, c kubernetes.Interface, each int) rollSite {
	t.Helper()
	s := rollSite{t, c, "rolls.example.com"}
	always := context.WithoutCancel(t.Context())
	create(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rolls"}})
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(always, "rolls", metav1.DeleteOptions{}) })
	create(t, c.CoreV1().ServiceAccounts("rolls"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holder"}})
	for _, on := range []string{"rolls-a", "rolls-b"} {
		pool := slice(on, manyGPUs(64)...)
		pool.Spec.Driver, pool.Spec.NodeName = s.driver, &on
		create(t, c.ResourceV1().ResourceSlices(), pool)
		t.Cleanup(func() { _ = c.ResourceV1().ResourceSlices().Delete(always, on, metav1.DeleteOptions{}) })
		for n := range each {
			holdWith(t, c, "rolls", fmt.Sprintf("%s-%02d", on, n), resourceapi.DeviceRequestAllocationResult{
				Request: "gpu", Driver: s.driver, Pool: on, Device: pool.Spec.Devices[n].Name,
			})
		}
	}
	return s
}

// api are rolls as a user writes them.
func (s rollSite) api(config *rest.Config) dynamic.ResourceInterface {
	s.Helper()
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	return untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceRollResource))
}

// roll waits for an operator to replace the pods of the driver, on a number of nodes at a time.
func (s rollSite) roll(atATime int64, parts map[string]any) *unstructured.Unstructured {
	spec := map[string]any{"driver": s.driver, "atATime": atATime, "driverPods": map[string]any{
		"namespace": "rolls", "labels": map[string]any{"app": "driver"}, "replace": "Wait",
	}}
	for key, value := range parts {
		spec[key] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.DeviceRollKind, "metadata": map[string]any{"name": "guarded"}, "spec": spec,
	}}
}

// TestRollIsGuarded: the guard counts the pods on as many nodes as a roll has in work at a time. It
// refuses one with too many unless that is acknowledged, and counts writes that widen a roll, no others. An
// author without the rights that the controller uses is refused whatever the guard says.
func TestRollIsGuarded(t *testing.T) {
	const each = 12 // two nodes have more than the threshold of 20 pods, and one has less
	_, c, _ := guarded(t, map[string]any{"controller": map[string]any{"enabled": true, "rolls": map[string]any{"enabled": true, "nodes": true}}})
	s := newRollSite(t, c, each)
	api := s.api(cluster.Config())
	eventually(t, "the guard has seen all pods", func(ctx context.Context) (bool, error) {
		_, err := api.Create(ctx, s.roll(2, nil), notStored)
		return err != nil && strings.Contains(err.Error(), "hits 24 pods"), nil
	})
	_, err := api.Create(t.Context(), s.roll(2, nil), metav1.CreateOptions{})
	wantDenied(t, err, "hits 24 pods, more than the threshold of 20", acknowledged)
	for name, parts := range map[string]map[string]any{"paused": {"paused": true}, "undone": {"undo": true}} {
		if _, err := api.Create(t.Context(), s.roll(2, parts), notStored); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	little := s.roll(2, nil)
	little.SetAnnotations(map[string]string{acknowledged: "pods<=23,namespaces<=1"})
	_, err = api.Create(t.Context(), little, notStored)
	wantDenied(t, err, "hits 24 pods, more than the acknowledged 23")
	if _, err := api.Create(t.Context(), s.roll(1, map[string]any{"drain": map[string]any{"evictionsPerMinute": int64(30)}}), metav1.CreateOptions{}); err != nil {
		t.Fatalf("one node at a time: %v", err)
	}
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), "guarded", metav1.DeleteOptions{}) })
	s.updates(api)
	s.authors(s.allowAuthor(), api)
}

// updates are those of a roll of one node at a time at 30 evictions a minute.
func (s rollSite) updates(api dynamic.ResourceInterface) {
	s.Helper()
	const denied = "hits 24 pods"
	for _, tt := range []struct{ what, patch, denied string }{
		{"more at a time", `{"spec": {"atATime": 2}}`, denied},
		{"as many as a label has values", `{"spec": {"perLabel": "topology.kubernetes.io/zone"}}`, denied},
		{"paused", `{"spec": {"paused": true}}`, ""},
		{"more at a time, while it is paused", `{"spec": {"atATime": 2}}`, ""},
		{"resumed", `{"spec": {"paused": false}}`, denied},
		{"undone", `{"spec": {"paused": false, "undo": true}}`, ""},
		{"no longer undone", `{"spec": {"undo": false}}`, denied},
		{"no longer undone, acknowledged", `{"metadata": {"annotations": {"` + acknowledged + `": "pods<=24,namespaces<=1"}}, "spec": {"undo": false}}`, ""},
		{"no longer acknowledged", `{"metadata": {"annotations": {"` + acknowledged + `": null}}}`, ""},
		{"faster", `{"spec": {"drain": {"evictionsPerMinute": 60}}}`, denied},
		{"slower", `{"spec": {"drain": {"evictionsPerMinute": 20}}}`, ""},
		{"a node less", `{"spec": {"skip": ["rolls-b"]}}`, ""},
		{"continued", `{"spec": {"continue": 1}}`, ""},
		{"fewer at a time", `{"spec": {"atATime": 1}}`, ""},
	} {
		_, err := api.Patch(s.Context(), "guarded", types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{})
		if tt.denied == "" && err != nil {
			s.Errorf("%s: %v", tt.what, err)
		}
		if tt.denied != "" && (err == nil || !strings.Contains(err.Error(), tt.denied)) {
			s.Errorf("%s: %v, want one with %q", tt.what, err, tt.denied)
		}
	}
}

// An author is a user who is allowed to write rolls, and nothing else.
const author = "rolls-author"

// allowAuthor gives the author this right, and returns the rolls as the author writes them.
func (s rollSite) allowAuthor() dynamic.ResourceInterface {
	s.Helper()
	config, err := cluster.User(author)
	if err != nil {
		s.Fatal(err)
	}
	create(s.T, s.c.RbacV1().ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: author}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.Group}, Resources: []string{v1alpha1.DeviceRollResource}, Verbs: []string{"*"}},
	}})
	create(s.T, s.c.RbacV1().ClusterRoleBindings(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: author},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: author}}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: author}})
	s.Cleanup(func() {
		ctx := context.WithoutCancel(s.Context())
		_ = s.c.RbacV1().ClusterRoleBindings().Delete(ctx, author, metav1.DeleteOptions{})
		_ = s.c.RbacV1().ClusterRoles().Delete(ctx, author, metav1.DeleteOptions{})
	})
	eventually(s.T, "the author is allowed to write rolls", func(ctx context.Context) (bool, error) {
		review, err := s.c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: author, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Group: v1alpha1.Group, Resource: v1alpha1.DeviceRollResource},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
	return s.api(config)
}

// authors shows that the author is refused what an administrator is not.
func (s rollSite) authors(asAuthor, asAdmin dynamic.ResourceInterface) {
	s.Helper()
	replaces := map[string]any{"driverPods": map[string]any{"namespace": "rolls", "labels": map[string]any{"app": "driver"}}}
	proves := map[string]any{"proof": map[string]any{"namespace": "rolls", "deviceClassName": "gpu", "image": "registry.example.com/proof:1"}}
	works := map[string]any{"driverPods": nil, "nodeWork": map[string]any{"annotation": map[string]any{"key": "example.com/done", "value": "yes"}}}
	for text, parts := range map[string]map[string]any{"not allowed to delete pods there": replaces, "not allowed to create pods there": proves, "not allowed to patch nodes": works} {
		r := s.roll(1, parts)
		r.SetName("other")
		if r.Object["spec"].(map[string]any)["driverPods"] == nil {
			unstructured.RemoveNestedField(r.Object, "spec", "driverPods")
		}
		r.SetAnnotations(map[string]string{acknowledged: "pods<=99,namespaces<=9"})
		_, err := asAuthor.Create(s.Context(), r, notStored)
		wantDenied(s.T, err, text, author, "dra-steward-rolls")
		if _, err := asAdmin.Create(s.Context(), r, notStored); err != nil {
			s.Errorf("an administrator: %v", err)
		}
	}
}

// TestPoliciesAreInForce: when the installation is ready, the API server applies the chart's policies.
func TestPoliciesAreInForce(t *testing.T) {
	values := map[string]any{"controller": map[string]any{"enabled": true, "rolls": map[string]any{"enabled": true, "nodes": true}}}
	g, admin, _ := guarded(t, nil) // an upgrade is ready sooner than an installation
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	const name = "dra-steward-rolls"
	for _, err := range []error{
		admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}),
		admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), name, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	s := rollSite{t, admin, "rolls.example.com"}
	asAuthor := s.allowAuthor()
	guarded(t, values)
	s.authors(asAuthor, s.api(cluster.Config()))
}
