package guard_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// TestSumOfRules is an attack: rules with one device each, first with the effect None and then,
// in parallel and by two authors, with NoExecute. Each by itself is within the thresholds. Of
// 32 published devices 16 are held; 25 % are 8.
func TestSumOfRules(t *testing.T) {
	const held, threshold = 16, 8
	_, c, _ := guarded(t, nil)
	pool := slice("sums", manyGPUs(32)...)
	pool.Spec.Pool = resourceapi.ResourcePool{Name: "rack", Generation: 1, ResourceSliceCount: 1}
	create(t, c.ResourceV1().ResourceSlices(), pool)
	always := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = c.ResourceV1().ResourceSlices().Delete(always, pool.Name, metav1.DeleteOptions{}) })
	create(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sums"}})
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(always, "sums", metav1.DeleteOptions{}) })
	create(t, c.CoreV1().ServiceAccounts("sums"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "holder"}})
	for n := range held {
		hold(t, c, "sums", fmt.Sprintf("sum-%02d", n), pool.Spec.Devices[n].Name)
	}
	rules := rulesOf(t, "system:admin", "jane")
	eventually(t, "the guard has seen all pods", func(ctx context.Context) (bool, error) {
		_, err := rules[0].Create(ctx, ruleOf(cluster.DeviceTaintRules(), "all", rack, "NoExecute", ""), notStored)
		return err != nil && strings.Contains(err.Error(), "hits 16 pods") || err != nil && strings.Contains(err.Error(), "hits 16 of the 32 devices"), nil
	})
	for n := range held {
		create(t, creator{rules[0]}, ruleOf(cluster.DeviceTaintRules(), fmt.Sprintf("sum-%02d", n), rack+"/"+pool.Spec.Devices[n].Name, preview(), ""))
	}
	t.Cleanup(func() {
		for n := range held {
			_ = rules[0].Delete(always, fmt.Sprintf("sum-%02d", n), metav1.DeleteOptions{})
		}
	})
	var admitted atomic.Int32
	var refused atomic.Value
	denied := make(chan string, held)
	var writers sync.WaitGroup
	for n := range held {
		writers.Go(func() {
			_, err := rules[n%2].Patch(t.Context(), fmt.Sprintf("sum-%02d", n), types.MergePatchType, []byte(`{"spec":{"taint":{"effect":"NoExecute"}}}`), metav1.PatchOptions{})
			if err == nil {
				admitted.Add(1)
			} else {
				refused.Store(err)
				denied <- pool.Spec.Devices[n].Name
			}
		})
	}
	writers.Wait()
	t.Logf("admitted %d of %d rules; the threshold is %d", admitted.Load(), held, threshold)
	if admitted.Load() != threshold {
		t.Fatalf("admitted %d, want %d", admitted.Load(), threshold)
	}
	said, _ := refused.Load().(error)
	wantDenied(t, said, "(dra-steward rule guard-window)", "together with the 8 evictions that began within the last 10m", "29 % of the devices of the drivers are more than the threshold of 25 %", "or wait until", acknowledged+`: "pods<=9,namespaces<=1"`)
	free := <-denied
	acknowledgedSum(t, rules[1], free)
	untyped, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	drainWithinSum(t, untyped.Resource(schema.GroupVersionResource{Group: "dra-steward.io", Version: "v1alpha1", Resource: "devicedrains"}), free)
}

// acknowledgedSum: an acknowledgement is about the sum, and a rule that is stopped is none.
func acknowledgedSum(t *testing.T, rules dynamic.ResourceInterface, device string) {
	for acknowledges, admits := range map[string]bool{"pods<=1": false, "pods<=9": true} {
		_, err := rules.Create(t.Context(), ruleOf(cluster.DeviceTaintRules(), "one-more", rack+"/"+device, "NoExecute", acknowledges), notStored)
		if (err == nil) != admits {
			t.Errorf("%s: %v", acknowledges, err)
		}
	}
}

// drainWithinSum: a drain counts together with the rules.
func drainWithinSum(t *testing.T, drains dynamic.ResourceInterface, device string) {
	for acknowledges, admits := range map[string]bool{"": false, "pods<=9": true} {
		drain := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "dra-steward.io/v1alpha1", "kind": "DeviceDrain", "metadata": map[string]any{"name": "one-more"},
			"spec": map[string]any{"devices": []any{map[string]any{"driver": driver, "pool": "rack", "device": device}}},
		}}
		if acknowledges != "" {
			drain.SetAnnotations(map[string]string{acknowledged: acknowledges})
		}
		if _, err := drains.Create(t.Context(), drain, notStored); (err == nil) != admits {
			t.Errorf("a drain with %q: %v", acknowledges, err)
		}
	}
}

// rulesOf are the rules as users with all rights write them.
func rulesOf(t *testing.T, users ...string) (all []dynamic.ResourceInterface) {
	t.Helper()
	for _, user := range users {
		config, err := cluster.User(user, "system:masters")
		if err != nil {
			t.Fatal(err)
		}
		config.QPS, config.Burst = 200, 200
		c, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c.Resource(cluster.DeviceTaintRules()))
	}
	return all
}

func manyGPUs(n int) (devices []resourceapi.Device) {
	for i := range n {
		devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%02d", i)})
	}
	return devices
}
