package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const release = "dra-steward"

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// editor is a user with the built-in role edit in some new namespaces.
func editor(t *testing.T, admin kubernetes.Interface, namespaces ...string) kubernetes.Interface {
	t.Helper()
	for _, name := range namespaces {
		if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "editor"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}}}
		if _, err := admin.RbacV1().RoleBindings(name).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	config, err := cluster.User("jane")
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, config)
	eventually(t, "jane may write claims", func(ctx context.Context) (bool, error) {
		_, err := c.ResourceV1().ResourceClaims(namespaces[len(namespaces)-1]).Create(ctx, in(namespaces[len(namespaces)-1], claim("may-i")), dryRun)
		return err == nil, nil
	})
	return c
}

// in is a claim in a namespace.
func in(namespace string, claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Namespace = namespace
	return claim
}

// TestTolerateEverything: every editor of a stock cluster may tolerate every taint with
// {}; ours may not, in a claim or in a template, unless the namespace has the parameter.
// An exemption that has expired is none.
func TestTolerateEverything(t *testing.T) {
	_, admin, _ := guarded(t, map[string]any{
		"policies": map[string]any{"namespaces": []any{map[string]any{"names": []any{"operators"}, "parameters": map[string]any{"DRA-TOL-001": map[string]any{"allowed": true}}}}},
		"exemptions": []any{
			map[string]any{"rules": []any{"DRA-TOL-001"}, "namespaces": []any{"late"}, "reason": "migration", "expires": "2025-12-31T00:00:00Z"},
			map[string]any{"rules": []any{"DRA-TOL-001"}, "namespaces": []any{"moving"}, "reason": "migration", "expires": "2099-12-31T00:00:00Z"},
		},
	})
	for _, name := range []string{"team", "late", "operators", "moving"} {
		jane := editor(t, admin, name)
		wildcard := in(name, claim("tolerant", resourceapi.DeviceToleration{}))
		_, err := jane.ResourceV1().ResourceClaims(name).Create(t.Context(), wildcard, dryRun)
		template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "tolerant"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: wildcard.Spec}}
		_, templateErr := jane.ResourceV1().ResourceClaimTemplates(name).Create(t.Context(), template, dryRun)
		if name == "operators" || name == "moving" {
			if err != nil || templateErr != nil {
				t.Errorf("%s: %v, %v", name, err, templateErr)
			}
			continue
		}
		t.Log(err)
		wantDenied(t, err, "spec.devices.requests[gpu].exactly.tolerations[0].key", "an empty key tolerates every taint", "name the key of the taint", "DRA-TOL-001")
		wantDenied(t, templateErr, "spec.spec.devices.requests[gpu].exactly.tolerations[0].key", "DRA-TOL-001")
	}
}

// sitePolicy denies a claim that tolerates a key; revision is in its message.
func sitePolicy(number int, revision string) string {
	return fmt.Sprintf(`# METADATA
# title: Site
# description: Site.
# custom:
#   code: SITE-00%[1]d
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [tolerations]
package dra.custom.site%[1]d

deny contains {"paths": toleration.paths, "message": "revision %[2]s"} if {
	some toleration in input.tolerations
	toleration.key == "example.com/forbidden"
}
`, number, revision)
}

// policyMap is a ConfigMap with policies.
func policyMap(files map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "site", Labels: map[string]string{"dra-steward.io/policy": "true"}}, Data: files}
}

// TestSitePolicies: a policy of the site comes into force by a ConfigMap. One that is
// broken is refused at once; if it gets in all the same, the last good one decides.
func TestSitePolicies(t *testing.T) {
	g, admin, _ := guarded(t, nil)
	maps := admin.CoreV1().ConfigMaps(release)
	t.Cleanup(func() { _ = maps.Delete(context.WithoutCancel(t.Context()), "site", metav1.DeleteOptions{}) })
	stored, err := maps.Create(t.Context(), policyMap(map[string]string{"a.rego": sitePolicy(1, "one")}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forbidden := func(ctx context.Context) error {
		_, err := admin.ResourceV1().ResourceClaims(namespace).Create(ctx, claim("forbidden", resourceapi.DeviceToleration{Key: "example.com/forbidden", Operator: "Exists", Effect: "NoSchedule"}), dryRun)
		return err
	}
	eventually(t, "the policy is in force", func(ctx context.Context) (bool, error) { return forbidden(ctx) != nil, nil })
	wantDenied(t, forbidden(t.Context()), "revision one", "SITE-001", "tolerations[0]")

	stored.Data["a.rego"] = strings.Replace(sitePolicy(1, "two"), "toleration.key", "toleration.kee", 1)
	_, err = maps.Update(t.Context(), stored, metav1.UpdateOptions{})
	t.Log(err)
	wantDenied(t, err, "ConfigMap dra-steward/site/a.rego:15", "kee", "the current ones stay in force")

	applying := cluster.Kubectl(t.Context(), "apply", "-f", "-")
	applying.Stdin = strings.NewReader(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "broken", "namespace": "` + release + `", "labels": {"dra-steward.io/policy": "true"}}, "data": {"b.rego": "package"}}`)
	if out, err := applying.CombinedOutput(); err == nil || !strings.Contains(string(out), "ConfigMap dra-steward/broken/b.rego:1") {
		t.Errorf("kubectl apply of a broken policy: %v\n%s", err, out)
	}

	withoutHook(t, admin)
	if _, err := maps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the failure is told", func(ctx context.Context) (bool, error) {
		metrics, err := g.Metrics(ctx)
		return strings.Contains(metrics, "dra_steward_policies_load_failed 1"), err
	})
	wantDenied(t, forbidden(t.Context()), "revision one")
}

// withoutHook takes the endpoint for policies out of the configuration, as if the
// webhook had not answered.
func withoutHook(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	removeHook(t, admin, "policies.validate.dra-steward.io")
	stored := policyMap(map[string]string{"a.rego": "broken"})
	eventually(t, "the endpoint is gone", func(ctx context.Context) (bool, error) {
		stored.Name = "probe"
		_, err := admin.CoreV1().ConfigMaps(release).Create(ctx, stored, dryRun)
		return err == nil, nil
	})
}

// removeHook takes an endpoint out of the configuration.
func removeHook(t *testing.T, admin kubernetes.Interface, name string) {
	t.Helper()
	configurations := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	configuration, err := configurations.Get(t.Context(), release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, hook := range configuration.Webhooks {
		if hook.Name == name {
			patch, _ := json.Marshal([]any{map[string]any{"op": "remove", "path": fmt.Sprintf("/webhooks/%d", i)}})
			if _, err := configurations.Patch(t.Context(), release, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestKillSwitch: policies.disabled silences all policies at once, also those that deny, and
// leaves the guard against rules that would evict everything.
func TestKillSwitch(t *testing.T) {
	denies := map[string]any{"modes": map[string]any{"DRA-CLAIM-002": "deny", "DRA-RULE-001": "off"}}
	rules := map[string]any{"taint-rule-everything": map[string]any{"severity": "off"}} // so that the guard alone objects
	all := claim("all")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	everything := ruleOf(cluster.DeviceTaintRules(), "kill-switch", "", "NoExecute", "")
	for _, disabled := range []bool{false, true} {
		t.Run(fmt.Sprintf("disabled=%t", disabled), func(t *testing.T) {
			denies["disabled"] = disabled
			_, admin, _ := guarded(t, map[string]any{"policies": denies, "rules": rules})
			_, err := admin.ResourceV1().ResourceClaims(namespace).Create(t.Context(), all, dryRun)
			if disabled && err != nil {
				t.Error(err)
			} else if !disabled {
				wantDenied(t, err, "DRA-CLAIM-002")
			}
			untyped, err := dynamic.NewForConfig(cluster.Config())
			if err != nil {
				t.Fatal(err)
			}
			_, err = untyped.Resource(cluster.DeviceTaintRules()).Create(t.Context(), everything, dryRun)
			wantDenied(t, err, "DRA-RULE-00", "an empty selector with the effect NoExecute")
		})
	}
}

const endless = `# METADATA
# title: Endless
# description: Ten million steps.
# custom:
#   code: SITE-009
#   severity: low
#   mode: deny
#   about: object
#   kinds: [ResourceClaim]
#   needs: [requests]
package dra.custom.endless

deny contains {"paths": [], "message": "x"} if {
	some a in digits
	some b in digits
	some c in digits
	some d in digits
	some e in digits
	some f in digits
	some g in digits
	a + b + c + d + e + f + g < 0
}

digits := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
`

// TestEndlessPolicy: ten million steps end at the deadline, and the write is denied.
func TestEndlessPolicy(t *testing.T) {
	_, admin, _ := guarded(t, map[string]any{"policies": map[string]any{"timeout": "200ms"}})
	maps := admin.CoreV1().ConfigMaps(release)
	t.Cleanup(func() { _ = maps.Delete(context.WithoutCancel(t.Context()), "site", metav1.DeleteOptions{}) })
	if _, err := maps.Create(t.Context(), policyMap(map[string]string{"a.rego": endless}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write is denied in time", func(ctx context.Context) (bool, error) {
		begin := time.Now()
		_, err := admin.ResourceV1().ResourceClaims(namespace).Create(ctx, claim("endless"), dryRun)
		if err != nil && strings.Contains(err.Error(), "too expensive to check") {
			t.Logf("%v: %v", time.Since(begin), err)
			return true, nil
		}
		return false, err
	})
}

// TestReloadUnderLoad: while policies change, every write is judged by policies of one
// revision, and none gets through.
func TestReloadUnderLoad(t *testing.T) {
	g, admin, _ := guarded(t, map[string]any{"webhooks": map[string]any{"claims": map[string]any{"failurePolicy": "Fail"}}})
	maps := admin.CoreV1().ConfigMaps(release)
	t.Cleanup(func() { _ = maps.Delete(context.WithoutCancel(t.Context()), "site", metav1.DeleteOptions{}) })
	revision := func(name string) *corev1.ConfigMap {
		return policyMap(map[string]string{"a.rego": sitePolicy(1, name), "b.rego": sitePolicy(2, name)})
	}
	if _, err := maps.Create(t.Context(), revision("r0."), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context) error {
		_, err := admin.ResourceV1().ResourceClaims(namespace).Create(ctx, claim("forbidden", resourceapi.DeviceToleration{Key: "example.com/forbidden", Operator: "Exists", Effect: "NoSchedule"}), dryRun)
		return err
	}
	eventually(t, "the policies are in force", func(ctx context.Context) (bool, error) { return write(ctx) != nil, nil })
	ctx, stop := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var mutex sync.Mutex
	seen, wrong := map[string]int{}, []string(nil)
	for range 4 {
		senders.Go(func() {
			for ctx.Err() == nil {
				err := write(t.Context())
				mutex.Lock()
				words := strings.Split(fmt.Sprint(err), "revision ")
				if len(words) != 3 || words[1][:3] != words[2][:3] {
					wrong = append(wrong, fmt.Sprint(err))
				} else {
					seen[words[1][:3]]++
				}
				mutex.Unlock()
			}
		})
	}
	for i := 1; i <= 5; i++ {
		name := fmt.Sprintf("r%d.", i)
		if _, err := maps.Update(t.Context(), revision(name), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, name, func(context.Context) (bool, error) {
			mutex.Lock()
			defer mutex.Unlock()
			return seen[name] > 0, nil
		})
	}
	stop()
	senders.Wait()
	if len(wrong) > 0 {
		t.Errorf("%d answers mix revisions or let a write pass: %s", len(wrong), wrong[0])
	}
	metrics, err := g.Metrics(t.Context())
	if err != nil || !strings.Contains(metrics, "dra_steward_policies_load_failed 0") {
		t.Errorf("%v\n%s", err, metrics)
	}
	t.Logf("answers by revision: %v", seen)
}
