package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// TestReactionIsGuarded: a reaction that drains more at once than the thresholds allow is refused
// when it is to act, and not while it observes or only cordons; in the next version of the type, too,
// which the API server converts for the webhook.
func TestReactionIsGuarded(t *testing.T) {
	const held = 16
	_, c, _ := guarded(t, map[string]any{"crds": map[string]any{"v1beta1": "served"}})
	pool := slice("reactions", manyGPUs(32)...)
	for n := range held {
		pool.Spec.Devices[n].Taints = []resourceapi.DeviceTaint{{Key: "example.com/xid", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	create(t, c.ResourceV1().ResourceSlices(), pool)
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = c.ResourceV1().ResourceSlices().Delete(always, pool.Name, metav1.DeleteOptions{}) })
	create(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "reactions"}})
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(always, "reactions", metav1.DeleteOptions{}) })
	create(t, c.CoreV1().ServiceAccounts("reactions"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holder"}})
	for n := range held {
		holdIn(t, c, "reactions", fmt.Sprintf("sick-%02d", n), "reactions", pool.Spec.Devices[n].Name)
	}
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceReactionResource))
	reaction := func(mode, acknowledgement string) *unstructured.Unstructured {
		r := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.DeviceReactionKind,
			"metadata": map[string]any{"name": "guarded"},
			"spec": map[string]any{
				"mode": mode, "when": map[string]any{"taint": map[string]any{"key": "example.com/xid"}},
				"selector": map[string]any{"driver": pool.Spec.Driver},
			},
		}}
		if acknowledgement != "" {
			r.SetAnnotations(map[string]string{acknowledged: acknowledgement})
		}
		return r
	}
	eventually(t, "the guard has seen all pods", func(ctx context.Context) (bool, error) {
		_, err := api.Create(ctx, reaction("Act", ""), notStored)
		return err != nil && strings.Contains(err.Error(), "hits 16"), nil
	})
	_, err = api.Create(t.Context(), reaction("Act", ""), metav1.CreateOptions{})
	wantDenied(t, err, "hits 16 of the 32 devices", acknowledged)
	next := reaction("Act", "")
	next.SetAPIVersion(v1alpha1.Group + "/v1beta1")
	eventually(t, "the next version is served", func(ctx context.Context) (bool, error) {
		_, err = untyped.Resource(next.GroupVersionKind().GroupVersion().WithResource(v1alpha1.DeviceReactionResource)).Create(ctx, next, metav1.CreateOptions{})
		return !apierrors.IsNotFound(err), nil
	})
	wantDenied(t, err, "hits 16 of the 32 devices", acknowledged)
	if _, err := api.Create(t.Context(), reaction("Observe", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(always, "guarded", metav1.DeleteOptions{}) })
	patch := func(text string) error {
		_, err := api.Patch(t.Context(), "guarded", types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	wantDenied(t, patch(`{"spec": {"mode": "Act"}}`), "hits 16 of the 32 devices", acknowledged)
	if err := patch(`{"spec": {"mode": "Act", "then": {"cordonOnly": true}}}`); err != nil {
		t.Errorf("a reaction that only cordons: %v", err)
	}
	wantDenied(t, patch(`{"spec": {"then": {"cordonOnly": false}}}`), "hits 16 of the 32 devices")
	wantDenied(t, patch(`{"spec": {"then": {"cordonOnly": false}, "when": {"taint": null, "nodeCondition": {"type": "GPUsFailing"}}}}`), "nodes and the health of devices are not watched: enable controller.reactions")
	if err := patch(fmt.Sprintf(`{"metadata": {"annotations": {%q: "pods<=16,namespaces<=1"}}, "spec": {"then": {"cordonOnly": false}}}`, acknowledged)); err != nil {
		t.Errorf("acknowledged: %v", err)
	}
	if err := patch(`{"spec": {"mode": "Observe"}}`); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

// TestBindingReactionIsGuarded: the guard counts the devices whose binding conditions have failed, from
// the status of claims, and refuses a reaction to them for its size only.
func TestBindingReactionIsGuarded(t *testing.T) {
	const held = 16
	_, c, _ := guarded(t, map[string]any{"controller": map[string]any{"enabled": true, "reactions": map[string]any{"enabled": true}}})
	pool := slice("bindings", manyGPUs(32)...)
	create(t, c.ResourceV1().ResourceSlices(), pool)
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = c.ResourceV1().ResourceSlices().Delete(always, pool.Name, metav1.DeleteOptions{}) })
	create(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bindings"}})
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(always, "bindings", metav1.DeleteOptions{}) })
	create(t, c.CoreV1().ServiceAccounts("bindings"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holder"}})
	const attached, failed = "example.com/attached", "example.com/failed"
	for n := range held {
		holdWith(t, c, "bindings", fmt.Sprintf("unbound-%02d", n), resourceapi.DeviceRequestAllocationResult{
			Request: "gpu", Driver: pool.Spec.Driver, Pool: "bindings", Device: pool.Spec.Devices[n].Name,
			BindingConditions: []string{attached}, BindingFailureConditions: []string{failed},
		}, metav1.Condition{Type: failed, Status: metav1.ConditionTrue, Reason: "NoLink", LastTransitionTime: metav1.Now()})
	}
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	api := untyped.Resource(v1alpha1.GroupVersion().WithResource(v1alpha1.DeviceReactionResource))
	reaction := func(name string, types ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.DeviceReactionKind,
			"metadata": map[string]any{"name": name},
			"spec": map[string]any{
				"mode": "Act", "when": map[string]any{"bindingConditions": map[string]any{"types": types}},
				"selector": map[string]any{"driver": pool.Spec.Driver},
			},
		}}
	}
	eventually(t, "the guard has seen all claims", func(ctx context.Context) (bool, error) {
		_, err := api.Create(ctx, reaction("binding", failed), notStored)
		return err == nil || strings.Contains(err.Error(), "hits 16") || strings.Contains(err.Error(), "are not read"), nil
	})
	_, err = api.Create(t.Context(), reaction("binding", failed), metav1.CreateOptions{})
	wantDenied(t, err, "hits 16 of the 32 devices", acknowledged)
	if _, err := api.Create(t.Context(), reaction("binding", "example.com/slow"), metav1.CreateOptions{}); err != nil {
		t.Errorf("a reaction to a condition that no device has: %v", err)
	}
	t.Cleanup(func() { _ = api.Delete(always, "binding", metav1.DeleteOptions{}) })
}
