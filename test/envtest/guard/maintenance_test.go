package guard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// TestMaintenance: with the default thresholds of 20 pods, three drains of eight pods each that
// state no rate begin at the same moment: they get the default rate.
func TestMaintenance(t *testing.T) {
	const nodes, each = 3, 8
	_, c, _ := guarded(t, nil)
	pool := slice("maintenance", manyGPUs(resourceapi.ResourceSliceMaxDevices)...)
	pool.Spec.Pool = resourceapi.ResourcePool{Name: "rack", Generation: 1, ResourceSliceCount: 1}
	create(t, c.ResourceV1().ResourceSlices(), pool)
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = c.ResourceV1().ResourceSlices().Delete(always, pool.Name, metav1.DeleteOptions{}) })
	create(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "maintenance"}})
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(always, "maintenance", metav1.DeleteOptions{}) })
	create(t, c.CoreV1().ServiceAccounts("maintenance"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holder"}})
	for n := range nodes * each {
		hold(t, c, "maintenance", fmt.Sprintf("trainer-%02d", n), pool.Spec.Devices[n].Name)
	}
	rules := rulesOf(t, "system:admin")[0]
	eventually(t, "the guard has seen all pods", func(ctx context.Context) (bool, error) {
		_, err := rules.Create(ctx, ruleOf(cluster.DeviceTaintRules(), "all", rack, "NoExecute", ""), notStored)
		return err != nil && strings.Contains(err.Error(), "24 pods"), nil
	})
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	drains := untyped.Resource(schema.GroupVersionResource{Group: "dra-steward.io", Version: "v1alpha1", Resource: "devicedrains"})
	drain := func(n int) *unstructured.Unstructured {
		var devices []any
		for _, device := range pool.Spec.Devices[n*each : (n+1)*each] {
			devices = append(devices, map[string]any{"driver": driver, "pool": "rack", "device": device.Name})
		}
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "dra-steward.io/v1alpha1", "kind": "DeviceDrain",
			"metadata": map[string]any{"name": fmt.Sprint("maintenance-", n)}, "spec": map[string]any{"devices": devices}}}
	}
	for n := range nodes - 1 {
		stored, err := drains.Create(t.Context(), drain(n), metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("drain %d: %v", n, err)
		}
		t.Cleanup(func() { _ = drains.Delete(always, stored.GetName(), metav1.DeleteOptions{}) })
	}
	stored, err := drains.Create(t.Context(), drain(nodes-1), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("drain %d: %v", nodes-1, err)
	}
	t.Cleanup(func() { _ = drains.Delete(always, stored.GetName(), metav1.DeleteOptions{}) })
	if rate, _, _ := unstructured.NestedInt64(stored.Object, "spec", "evictionsPerMinute"); rate != 60 {
		t.Errorf("the stored rate is %d", rate)
	}
}
