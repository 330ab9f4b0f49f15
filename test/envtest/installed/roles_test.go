package installed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/cli"
	"github.com/dra-steward/dra-steward/internal/cli/cmdutil"
)

// onCall is a user with the chart's role for people on call.
const onCall = "on-call"

// TestRoles: what people may do with the chart's roles, asked of the API server's own
// authorizer.
func TestRoles(t *testing.T) {
	_, clients := install(t, quick())
	t.Run("aggregated", func(t *testing.T) { aggregated(t, clients) })
	t.Run("on call", func(t *testing.T) {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: onCall},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: onCall}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "dra-steward-oncall"}}
		_, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = clients.RbacV1().ClusterRoleBindings().Delete(context.Background(), onCall, metav1.DeleteOptions{})
		})
		onCallMay(t, clients)
		onCallRuns(t, clients)
	})
}

// aggregated: view, edit and admin gain that they read our own types, and nothing else.
func aggregated(t *testing.T, clients kubernetes.Interface) {
	for _, name := range []string{"view", "edit", "admin"} {
		eventually(t, name+" reads our types", func(ctx context.Context) error {
			role, err := clients.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
			if err == nil && !slices.ContainsFunc(role.Rules, ofOurs) {
				err = errors.New("has no rule for dra-steward.io")
			}
			return err
		})
		role, err := clients.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		must(t, err)
		for _, rule := range role.Rules {
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) })
			if ofOurs(rule) && (writes || len(rule.APIGroups) != 1) {
				t.Errorf("%s gains %+v", name, rule)
			}
		}
	}
	all, err := clients.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward"})
	must(t, err)
	for _, role := range all.Items {
		for label := range role.Labels {
			if strings.HasPrefix(label, rbacv1.GroupName+"/aggregate-to-") && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return !ofOurs(r) }) {
				t.Errorf("%s is aggregated, and is not about our types alone: %+v", role.Name, role.Rules)
			}
		}
	}
}

func ofOurs(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.APIGroups, "dra-steward.io") }

// onCallMay: drains and taint rules are written, what commands need is read, and that is all.
func onCallMay(t *testing.T, clients kubernetes.Interface) {
	for request, want := range map[string]bool{
		"create dra-steward.io devicedrains":            true,
		"delete dra-steward.io devicedrains":            true,
		"create resource.k8s.io devicetaintrules":       true,
		"patch resource.k8s.io devicetaintrules":        true,
		"list resource.k8s.io resourceslices":           true,
		"list resource.k8s.io resourceclaims":           true,
		"list scheduling.k8s.io podgroups":              true,
		"list policy poddisruptionbudgets":              true,
		"list  pods":                                    true,
		"list  nodes":                                   true,
		"list  events":                                  true,
		"list  persistentvolumeclaims":                  true,
		"list  persistentvolumes":                       true,
		"list storage.k8s.io csinodes":                  true,
		"list  secrets":                                 false,
		"get  configmaps":                               false,
		"delete  pods":                                  false,
		"patch  nodes":                                  false,
		"create policy evictions":                       false,
		"create dra-steward.io resourceslicepatches":    false,
		"patch resource.k8s.io resourceslices":          false,
		"delete resource.k8s.io resourceclaims":         false,
		"patch dra-steward.io devicedrains/status":      false,
		"create rbac.authorization.k8s.io clusterroles": false,
		"delete admissionregistration.k8s.io validatingwebhookconfigurations": false,
	} {
		if want { // the authorizer learns of the role some time after it was bound
			eventually(t, request, func(ctx context.Context) error {
				if allowed, err := allows(ctx, clients, request); err != nil || !allowed {
					return errors.Join(err, errors.New("not allowed"))
				}
				return nil
			})
			continue
		}
		if allowed, err := allows(t.Context(), clients, request); err != nil || allowed {
			t.Errorf("%s: allowed %t, %v", request, allowed, err)
		}
	}
}

// allows asks whether a person on call may do something: verb, group and resource.
func allows(ctx context.Context, clients kubernetes.Interface, request string) (bool, error) {
	part := strings.Split(request, " ")
	resource, sub, _ := strings.Cut(part[2], "/")
	review, err := clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: onCall, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: part[0], Group: part[1], Resource: resource, Subresource: sub}}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// onCallRuns: the commands that the role is for say nothing of a missing permission.
func onCallRuns(t *testing.T, clients kubernetes.Interface) {
	devices(t, clients)
	name := runs(t, clients)
	t.Cleanup(func() {
		_ = clients.CoreV1().Pods(metav1.NamespaceDefault).Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	for _, command := range [][]string{
		{"devices"}, {"why", "pod/" + name}, {"impact", "node/node-1", "on-call.example.com/test:NoExecute"},
		{"taint", "node/node-1", "on-call.example.com/test:NoSchedule"}, {"untaint", "node/node-1", "on-call.example.com/test"},
		{"drain", "node/node-1", "--dry-run=server"},
	} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), append(command, "--kubeconfig="+cluster.Kubeconfig(), "--as="+onCall), cmdutil.Streams{Out: &out, Err: &errs})
		text := fmt.Sprintf("%s%s", &out, &errs)
		if code == cmdutil.ExitFailed || strings.Contains(text, "forbidden") || strings.Contains(text, "cannot be read") {
			t.Errorf("%q: exit code %d\n%s", command, code, text)
		}
	}
}
