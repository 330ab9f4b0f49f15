package drain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestRollAuthor: a user who may write DeviceRolls, but not the pods and nodes that the controller changes
// for them, gets no roll that does. With a right, the user gets the roll that needs it.
func TestRollAuthor(t *testing.T) {
	s := newSite(t, "roll-author", 1)
	user := s.name + "-author"
	config, err := cluster.User(user)
	do(s, err)
	client, err := dynamic.NewForConfig(config)
	do(s, err)
	api := client.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceRollResource))
	s.grant("", user, "write", rbacv1.PolicyRule{APIGroups: []string{v1alpha1.Group}, Resources: []string{v1alpha1.DeviceRollResource}, Verbs: []string{"*"}})
	pods := map[string]any{"namespace": driversNamespace, "labels": map[string]any{"app": s.name}}
	proof := map[string]any{"namespace": proofsNamespace, "deviceClassName": "gpu", "image": "registry.example.com/proof:1"}
	roll := func(parts map[string]any) *unstructured.Unstructured {
		spec := map[string]any{"driver": "absent." + s.name + ".example.com", "paused": true}
		for key, value := range parts {
			spec[key] = value
		}
		r := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.DeviceRollKind, "spec": spec}}
		r.SetName(s.name)
		return r
	}
	create := func(parts map[string]any) error {
		_, err := api.Create(s.Context(), roll(parts), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	operator := map[string]any{"namespace": driversNamespace, "labels": map[string]any{"app": s.name}, "replace": "Wait"}
	s.within(time.Minute, "the author may write rolls", func(context.Context) (bool, error) {
		err := create(map[string]any{"driverPods": operator})
		return err == nil, ignoreForbidden(err)
	})
	annotation := map[string]any{"annotation": map[string]any{"key": "example.com/done", "value": "yes"}}
	for _, tt := range []struct {
		parts map[string]any
		want  string
		name  string
		may   rbacv1.PolicyRule
		in    string
	}{
		{map[string]any{"driverPods": pods}, "is not allowed to delete pods there", "pods", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}}, driversNamespace},
		{map[string]any{"driverPods": operator, "proof": proof}, "is not allowed to create pods there", "proofs", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}}, proofsNamespace},
		{map[string]any{"nodeWork": annotation}, "is not allowed to patch nodes", "nodes", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}}, ""},
	} {
		if err := create(tt.parts); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), user) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		s.grant(tt.in, user, tt.name, tt.may)
		s.within(time.Minute, "allowed: "+tt.name, func(context.Context) (bool, error) {
			err := create(tt.parts)
			return err == nil, ignoreForbidden(err)
		})
	}
	_, err = s.rolls().Create(s.Context(), roll(map[string]any{"driverPods": pods, "proof": proof}), metav1.CreateOptions{})
	do(s, err)
	s.removeRoll()
	do(s, c.RbacV1().RoleBindings(driversNamespace).Delete(s.Context(), user+"-pods", metav1.DeleteOptions{}))
	s.within(time.Minute, "the right is gone", func(context.Context) (bool, error) {
		return apierrors.IsForbidden(create(map[string]any{"driverPods": pods})), nil
	})
	if _, err := api.Patch(s.Context(), s.name, types.MergePatchType, []byte(`{"spec": {"undo": true}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("undo without rights on pods: %v", err)
	}
	if _, err := api.Patch(s.Context(), s.name, types.MergePatchType, []byte(`{"spec": {"proof": {"image": "registry.example.com/mine:1"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("another image, with the right to create pods: %v", err)
	}
}

// grant binds a user to rules: in a namespace, or in the cluster if there is none.
func (s site) grant(namespace, user, name string, rule rbacv1.PolicyRule) {
	s.Helper()
	name = user + "-" + name
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
	do(s, s.create(c.RbacV1().ClusterRoles().Create(s.Context(), role, metav1.CreateOptions{})))
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	if namespace == "" {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}
		do(s, s.create(c.RbacV1().ClusterRoleBindings().Create(s.Context(), binding, metav1.CreateOptions{})))
		return
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}
	do(s, s.create(c.RbacV1().RoleBindings(namespace).Create(s.Context(), binding, metav1.CreateOptions{})))
}

// ignoreForbidden is an error, except one about rights, which the API server learns of late.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
