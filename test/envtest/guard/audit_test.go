package guard_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// audited runs "dra-steward audit" and returns what it writes.
func audited(t *testing.T, kubeconfig string, args ...string) (out, problems string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), append([]string{"audit", "--kubeconfig", kubeconfig}, args...), cmdutil.Streams{Out: &stdout, Err: &stderr})
	return stdout.String(), stderr.String(), code
}

// auditNamespace makes a namespace with claims, of which each tolerates what it is given.
func auditNamespace(t *testing.T, c kubernetes.Interface, name string, claims map[string][]resourceapi.DeviceToleration) {
	t.Helper()
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for claimName, tolerations := range claims {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			one := claim(claimName, tolerations...)
			one.Namespace = name
			if _, err := c.ResourceV1().ResourceClaims(name).Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestAudit: what was stored before anybody judged is found, in every page of a list, and
// two runs write the same bytes.
func TestAudit(t *testing.T) {
	c := client(t, cluster.Config())
	claims := map[string][]resourceapi.DeviceToleration{"wild": {{Operator: resourceapi.DeviceTolerationOpExists}}}
	for i := range 620 {
		claims[fmt.Sprintf("good-%03d", i)] = nil
	}
	claims["zz-forever"] = []resourceapi.DeviceToleration{{Key: "a.example.com/x", Operator: resourceapi.DeviceTolerationOpExists, Effect: resourceapi.DeviceTaintEffectNoExecute}}
	auditNamespace(t, c, "audit-a", claims)
	auditNamespace(t, c, "audit-b", map[string][]resourceapi.DeviceToleration{"good": nil})
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "wild", Namespace: "audit-b"}}
	template.Spec.Spec = claim("", resourceapi.DeviceToleration{}).Spec
	if _, err := c.ResourceV1().ResourceClaimTemplates("audit-b").Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"text", "json", "sarif"} {
		first, problems, code := audited(t, cluster.Kubeconfig(), "-o", output)
		second, _, _ := audited(t, cluster.Kubeconfig(), "-o", output)
		if code != cmdutil.ExitFindings || first != second {
			t.Fatalf("%s: exit code %d, %s; first run\n%s\nsecond run\n%s", output, code, problems, first, second)
		}
		if output != "text" {
			continue
		}
		for _, want := range []string{"DRA-TOL-001 (today deny): would refuse ", "audit-a 1, audit-b 1", "  ResourceClaim audit-a/wild: spec.devices.requests[gpu].exactly.tolerations[0].key: ",
			"  ResourceClaimTemplate audit-b/wild: spec.spec.devices.requests[gpu]", "DRA-TOL-004 (today warn): would refuse", "  ResourceClaim audit-a/zz-forever: "} {
			if !strings.Contains(first, want) {
				t.Errorf("lacks %q:\n%s", want, first)
			}
		}
	}
	if out, problems, code := audited(t, cluster.Kubeconfig(), "--namespace", "audit-a", "--raise", "DRA-CLAIM-002"); code != cmdutil.ExitClean || out != "622 objects checked, none would be refused\n" {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}
}

// TestAuditWithoutRights names all rights that are missing, and goes with the ones that the
// help names.
func TestAuditWithoutRights(t *testing.T) {
	c := client(t, cluster.Config())
	auditNamespace(t, c, "audit-rights", map[string][]resourceapi.DeviceToleration{"wild": {{}}})
	grant(t, c, "audit-few", "", rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"deviceclasses", "resourceslices"}, Verbs: []string{"list"}})
	few, err := cluster.UserKubeconfig("audit-few")
	if err != nil {
		t.Fatal(err)
	}
	_, problems, code := audited(t, few)
	const want = "not allowed to list resourceclaims.resource.k8s.io, resourceclaimtemplates.resource.k8s.io, namespaces, devicetaintrules.resource.k8s.io: grant the verb list"
	if code != cmdutil.ExitFailed || !strings.Contains(problems, want) {
		t.Errorf("exit code %d: %s", code, problems)
	}
	grant(t, c, "audit-few-more", "", rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"devicetaintrules"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list"}})
	grant(t, c, "audit-few-claims", "audit-rights", rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaimtemplates"}, Verbs: []string{"list"}})
	eventually(t, "the rights are known", func(ctx context.Context) (bool, error) {
		_, problems, code = audited(t, few, "--namespace", "audit-rights")
		return code == cmdutil.ExitFindings, nil
	})
}

// grant gives the user "audit-few" rights, in all namespaces for an empty one.
func grant(t *testing.T, c kubernetes.Interface, name, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: namespace}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "audit-few"}}
	var roleErr, bindingErr error
	if namespace == "" {
		_, roleErr = c.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		_, bindingErr = c.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}}, metav1.CreateOptions{})
	} else {
		_, roleErr = c.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
		_, bindingErr = c.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}}, metav1.CreateOptions{})
	}
	if roleErr != nil || bindingErr != nil {
		t.Fatal(roleErr, bindingErr)
	}
}
