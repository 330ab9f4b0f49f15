package installed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dra-steward/dra-steward/internal/testsupport/testaudit"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An event is what is looked at of an audit event.
type event struct {
	Verb           string
	User           struct{ Username string }
	RequestURI     string
	ObjectRef      *struct{ Resource, Subresource, APIGroup, Namespace, Name string }
	ResponseStatus struct{ Code int }

	RequestReceivedTimestamp time.Time
}

// seldom are rights that TestRights need not make use of, with the reason why they are
// there.
var seldom = map[string]string{
	"dra-steward-controller: create secrets " + secret:                                                       "an apply that creates is recorded as a patch; TestRights sees that it is refused without",
	"dra-steward-controller: patch events":                                                                   "counts up an event that occurs again, which takes the recorder minutes",
	"dra-steward-controller: create devicetaintrules.resource.k8s.io":                                        "the cordon of a DeviceDrain: test/envtest/drain, TestBudget",
	"dra-steward-controller: patch devicetaintrules.resource.k8s.io":                                         "the cordon of a DeviceDrain: test/envtest/drain, TestOverlap",
	"dra-steward-controller: delete devicetaintrules.resource.k8s.io":                                        "the end of a cordon, and of what taint --for wrote: test/envtest/drain, TestBudget",
	"dra-steward-controller: get customresourcedefinitions.apiextensions.k8s.io devicedrains.dra-steward.io": "whether a drain went with its type: test/envtest/drain, TestTypeDeleted",
	"dra-steward-controller: create pods/eviction":                                                           "the evictions of a DeviceDrain: test/envtest/drain, TestBudget",
	"dra-steward-controller: update devicedrains/status.dra-steward.io":                                      "the status of a DeviceDrain: test/envtest/drain, TestBudget",
	"dra-steward-controller: patch devicetaintrules/status.resource.k8s.io":                                  "when a rule began to evict: TestParallelRules",
	"dra-steward-controller: get namespaces":                                                                 "the same, for the claim of a pod in a namespace that was just created",
	"dra-steward-controller: update configmaps dra-steward-controller-history-":                              "a shard of the history that is stored already: test/envtest/drain, TestHistory",
	"dra-steward: get namespaces":                                                                            "the labels of a namespace that the watch has not shown yet, where a policy asks for them: test/envtest/guard, TestLabelsOfNamespaces",
	"dra-steward: list resourceclaimtemplates.resource.k8s.io":                                               "how old a template is, of whose claim a policy denies: test/envtest/guard, TestAgeOfTemplates",
}

// fallback says of a right that it is for servers that cannot send all objects at the
// beginning of a watch: client-go lists them there.
func fallback(right string, used map[string]bool) bool {
	return used[strings.Replace(right, ": list ", ": watch ", 1)]
}

// TestRights holds what the two accounts did, after all that the tests of this package
// do, against what they may do: nothing was refused, and no right is there for nothing.
// The pods have a token of their account and no other credentials.
func TestRights(t *testing.T) {
	c, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	exercise(t, c, clients)
	used, refused := audited(t)
	for _, request := range slices.Sorted(maps.Keys(refused)) {
		t.Errorf("refused: %s", request)
	}
	granted := rights(t, clients)
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		if !used[right] && seldom[strings.TrimRight(right, "0123456789")] == "" && !fallback(right, used) {
			t.Errorf("%s is granted and not made use of: take it away, make use of it in exercise, or say in seldom why it is there", right)
		}
	}
	t.Logf("%d rights; for %d the reason is given", len(granted), len(seldom))
	cannotCreate(t, c, clients)
}

// cannotCreate takes away the right to create the Secret, and sees that it is needed.
func cannotCreate(t *testing.T, c client.Client, clients kubernetes.Interface) {
	t.Helper()
	role, err := clients.RbacV1().Roles(namespace).Get(t.Context(), "dra-steward-controller", metav1.GetOptions{})
	must(t, err)
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, "secrets") {
			role.Rules[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(verb string) bool { return verb == "create" })
		}
	}
	_, err = clients.RbacV1().Roles(namespace).Update(t.Context(), role, metav1.UpdateOptions{})
	must(t, err)
	before := secretData(t, clients)
	must(t, clients.CoreV1().Secrets(namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	eventually(t, "refused", func(context.Context) error {
		for _, pod := range kubelet.Pods("controller") {
			if log := kubelet.Log(pod.Object.Name); strings.Contains(log, "cannot maintain the certificate") && strings.Contains(log, "forbidden") {
				return nil
			}
		}
		return errors.New("the controller says nothing")
	})
	newHelm(t, clients).release(t, quick())
	eventually(t, "the certificate is replaced", func(ctx context.Context) error { return replaced(ctx, c, clients, before) })
}

// exercise makes the two accounts do all that they do with the default values.
func exercise(t *testing.T, c client.Client, clients kubernetes.Interface) {
	t.Helper()
	before := secretData(t, clients)
	must(t, clients.CoreV1().Secrets(namespace).Delete(t.Context(), secret, metav1.DeleteOptions{}))
	eventually(t, "the certificate is replaced", func(ctx context.Context) error { return replaced(ctx, c, clients, before) })

	// A patch has a status, and an event where something is wrong with it.
	patch := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "dra-steward.io/v1alpha1", "kind": "ResourceSlicePatch",
		"metadata": map[string]any{"name": "rights"}, "spec": map[string]any{"devices": map[string]any{
			"filter":     map[string]any{"deviceClassName": "missing"},
			"attributes": map[string]any{"example.com/rack": map[string]any{"string": "r12"}}}}}}
	must(t, c.Create(t.Context(), patch))
	t.Cleanup(func() { _ = c.Delete(context.Background(), patch) })
	eventually(t, "the patch has a status", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(patch), patch); err != nil {
			return err
		}
		if conditions, _, _ := unstructured.NestedSlice(patch.Object, "status", "conditions"); len(conditions) == 0 {
			return errors.New("no conditions")
		}
		return nil
	})

	// The state of policies is in a ConfigMap, and what is wrong in an event. Such a
	// policy only gets in past the webhook.
	_, err := clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), name, types.StrategicMergePatchType,
		[]byte(`{"webhooks":[{"$patch":"delete","name":"policies.validate.dra-steward.io"}]}`), metav1.PatchOptions{})
	must(t, err)
	policy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rights", Namespace: namespace, Labels: map[string]string{"dra-steward.io/policy": "true"}},
		Data: map[string]string{"policy.rego": "package broken\nthis is not rego"}}
	eventually(t, "a broken policy is stored", func(ctx context.Context) error {
		_, err := clients.CoreV1().ConfigMaps(namespace).Create(ctx, policy, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		_ = clients.CoreV1().ConfigMaps(namespace).Delete(context.Background(), policy.Name, metav1.DeleteOptions{})
	})
	eventually(t, "an event tells of it", func(ctx context.Context) error {
		events, err := clients.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=rights"})
		if err == nil && len(events.Items) == 0 {
			return errors.New("no event")
		}
		return err
	})
	newHelm(t, clients).release(t, quick())
}

// audited returns the rights that were made use of, and the requests that were refused.
func audited(t *testing.T) (used, refused map[string]bool) {
	t.Helper()
	used, refused = map[string]bool{}, map[string]bool{}
	for _, e := range testaudit.Entries[event](t, cluster.AuditLog(), 0) {
		account := strings.TrimPrefix(e.User.Username, "system:serviceaccount:"+namespace+":")
		if e.ResponseStatus.Code == 403 || e.ResponseStatus.Code == 401 {
			if slices.ContainsFunc(windows, func(w window) bool {
				return e.RequestReceivedTimestamp.After(w.from) && e.RequestReceivedTimestamp.Before(w.to)
			}) {
				continue
			}
			refused[fmt.Sprintf("%s: %s %s: %d", account, e.Verb, e.RequestURI, e.ResponseStatus.Code)] = true
			continue
		}
		if e.ObjectRef != nil {
			for _, name := range []string{"", e.ObjectRef.Name} {
				used[right(account, e.Verb, e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Subresource, name)] = true
			}
		}
	}
	return used, refused
}

func right(account, verb, group, resource, subresource, name string) string {
	if subresource != "" {
		resource += "/" + subresource
	}
	if group != "" {
		resource += "." + group
	}
	if name != "" {
		resource += " " + name
	}
	return account + ": " + verb + " " + resource
}

// rights returns what the roles of the release grant.
func rights(t *testing.T, clients kubernetes.Interface) map[string]bool {
	t.Helper()
	granted := map[string]bool{}
	add := func(account string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						resource, subresource, _ := strings.Cut(resource, "/")
						for _, name := range append([]string{}, orNone(rule.ResourceNames)...) {
							granted[right(account, verb, group, resource, subresource, name)] = true
						}
					}
				}
			}
		}
	}
	ctx := context.Background()
	for _, account := range []string{"dra-steward", "dra-steward-controller"} {
		cluster, err := clients.RbacV1().ClusterRoles().Get(ctx, account, metav1.GetOptions{})
		must(t, err)
		add(account, cluster.Rules)
		own, err := clients.RbacV1().Roles(namespace).Get(ctx, account, metav1.GetOptions{})
		must(t, err)
		add(account, own.Rules)
	}
	return granted
}

func orNone(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}
