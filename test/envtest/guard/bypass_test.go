package guard_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
)

// TestForgedIdentity: what only the scheduler and the claim controller write by right
// makes no other user one of them.
func TestForgedIdentity(t *testing.T) {
	_, admin, _ := guarded(t, nil)
	jane := editor(t, admin, "forger")
	yes := true
	for name, forge := range map[string]func(*metav1.ObjectMeta){
		"the scheduler's annotation": func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
		},
		"the controller's annotation": func(m *metav1.ObjectMeta) {
			m.Annotations = map[string]string{"resource.kubernetes.io/pod-claim-name": "gpu"}
		},
		"an owner": func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod", UID: "4f7ad1b2-1111-4c4c-9d9d-000000000000", Controller: &yes, BlockOwnerDeletion: &yes}}
		},
		"labels": func(m *metav1.ObjectMeta) {
			m.Labels = map[string]string{"kubernetes.io/metadata.name": "kube-system", "dra-steward.io/exempt": "true"}
		},
		"a field manager": func(m *metav1.ObjectMeta) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-scheduler", Operation: "Update", APIVersion: "resource.k8s.io/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{}`)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			forged := in("forger", claim("forged", resourceapi.DeviceToleration{}))
			forge(&forged.ObjectMeta)
			_, err := jane.ResourceV1().ResourceClaims("forger").Create(t.Context(), forged, metav1.CreateOptions{DryRun: dryRun.DryRun, FieldManager: "kube-scheduler"})
			wantDenied(t, err, "DRA-TOL-001", "tolerations[0].key")
		})
	}
}

// TestSelfLabelledNamespace: a site allows by a label of the namespace what it denies
// elsewhere. A user who may write namespaces cannot set the label, neither while the webhook
// runs nor while it is down; a user who is listed for it can.
func TestSelfLabelledNamespace(t *testing.T) {
	gold := map[string]any{"matchLabels": map[string]any{"example.com/tier": "gold"}}
	g, admin, _ := guarded(t, map[string]any{
		"protectedLabels": map[string]any{"keys": []any{"example.com/tier"}, "groups": []any{"platform-admins"}},
		"policies":        map[string]any{"namespaces": []any{map[string]any{"namespaceSelector": gold, "parameters": map[string]any{"DRA-TOL-001": map[string]any{"allowed": true}}}}},
		"exemptions":      []any{map[string]any{"rules": []any{"DRA-TOL-002"}, "namespaceSelector": gold, "reason": "the platform's own", "expires": "2099-12-31T00:00:00Z"}},
	})
	t.Cleanup(func() {
		if err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(context.Background(), "dra-steward-protected-labels", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	jane := editor(t, admin, "labelled")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "namespaces"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "namespaces"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}, {APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "platform-admins"}}}
	_, roleErr := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil || roleErr != nil {
		t.Fatal(err, roleErr)
	}
	wildcard := func(ctx context.Context) error {
		_, err := jane.ResourceV1().ResourceClaims("labelled").Create(ctx, in("labelled", claim("tolerant", resourceapi.DeviceToleration{})), dryRun)
		return err
	}
	wantDenied(t, wildcard(t.Context()), "DRA-TOL-001")

	const set = `{"metadata":{"labels":{"example.com/tier":"gold"}}}`
	namespaces := jane.CoreV1().Namespaces()
	eventually(t, "jane may change other labels", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Patch(ctx, "labelled", types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/other":"a"}}}`), metav1.PatchOptions{})
		return err == nil, nil
	})
	eventually(t, "the label is protected", func(ctx context.Context) (bool, error) { // the API server takes a moment to send
		_, err := namespaces.Patch(ctx, "labelled", types.MergePatchType, []byte(set), metav1.PatchOptions{DryRun: dryRun.DryRun})
		return err != nil, nil
	})
	cannotLabel(t, jane, "gold")
	wantDenied(t, wildcard(t.Context()), "DRA-TOL-001")

	config, err := cluster.User("root", "platform-admins")
	if err != nil {
		t.Fatal(err)
	}
	checkTypes(t, admin)
	if _, err := client(t, config).CoreV1().Namespaces().Patch(t.Context(), "labelled", types.MergePatchType, []byte(set), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the label counts", func(ctx context.Context) (bool, error) { return wildcard(ctx) == nil, nil })
	_, err = namespaces.Patch(t.Context(), "labelled", types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/tier":null}}}`), metav1.PatchOptions{})
	wantDenied(t, err, "example.com/tier")

	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	cannotLabel(t, jane, "silver")
	if _, err := client(t, config).CoreV1().Namespaces().Patch(t.Context(), "labelled", types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/tier":"silver"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("webhook down: a listed user: %v", err)
	}
}

// cannotLabel tries each way to give a namespace the protected label.
func cannotLabel(t *testing.T, jane kubernetes.Interface, value string) {
	t.Helper()
	set := map[string]string{"example.com/tier": value}
	namespaces := jane.CoreV1().Namespaces()
	for _, subresource := range [][]string{nil, {"status"}} {
		_, err := namespaces.Patch(t.Context(), "labelled", types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/tier":"`+value+`"}}}`), metav1.PatchOptions{}, subresource...)
		t.Log(err)
		wantDenied(t, err, "example.com/tier", "protectedLabels", `"jane" is not`)
		if !apierrors.IsForbidden(err) {
			t.Errorf("%v is not Forbidden", err)
		}
	}
	_, err := namespaces.Apply(t.Context(), applycorev1.Namespace("labelled").WithLabels(set), metav1.ApplyOptions{FieldManager: "jane", Force: true})
	wantDenied(t, err, "example.com/tier")
	labelled, err := namespaces.Get(t.Context(), "labelled", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	labelled.Labels["example.com/tier"] = value
	_, err = namespaces.Finalize(t.Context(), labelled, metav1.UpdateOptions{})
	wantDenied(t, err, "example.com/tier")
	_, err = namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "born-" + value, Labels: set}}, metav1.CreateOptions{})
	wantDenied(t, err, "example.com/tier")
}

// checkTypes waits for kube-controller-manager to check the types of the expressions.
func checkTypes(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	eventually(t, "the policy's types are checked", func(ctx context.Context) (bool, error) {
		policy, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, "dra-steward-protected-labels", metav1.GetOptions{})
		if err != nil || policy.Status.TypeChecking == nil {
			return false, err
		}
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s", warning.FieldRef, warning.Warning)
		}
		return true, nil
	})
}
