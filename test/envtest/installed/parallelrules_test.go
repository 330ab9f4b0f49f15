package installed

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/test/envtest/internal/taintrules"
)

// TestParallelRules is an attack on two replicas: two authors change 64 rules with one pod each
// from None to NoExecute, all at once. Each replica admits the threshold of 20 pods at most, so
// that at most 40 rules are stored. The controller records when each of them began to evict.
func TestParallelRules(t *testing.T) {
	const rules, threshold, replicas = 64, 20, 2
	c, clients := install(t, quick())
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	eventually(t, "two replicas run", func(context.Context) error { return count(replicas) })
	waitReady(t, c)
	manyDevices(t, clients, 256)
	held := holders(t, clients, rules)
	authors := []dynamic.ResourceInterface{rulesAs(t, "jane"), rulesAs(t, "joe")}
	all := taintRule(t, "all", "", resourceapi.DeviceTaintEffectNoExecute)
	eventually(t, "the guard has seen all pods", func(ctx context.Context) error {
		_, err := authors[0].Create(ctx, all, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(rules, " pods")) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	t.Cleanup(func() {
		_ = authors[0].DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	for n, device := range held {
		_, err := authors[0].Create(t.Context(), taintRule(t, fmt.Sprint("parallel-", n), device, taintrules.Preview(cluster)), metav1.CreateOptions{})
		must(t, err)
	}
	var admitted atomic.Int32
	var writers sync.WaitGroup
	for n := range rules {
		writers.Go(func() {
			_, err := authors[n%2].Patch(t.Context(), fmt.Sprint("parallel-", n), types.MergePatchType,
				[]byte(`{"spec":{"taint":{"effect":"NoExecute"}}}`), metav1.PatchOptions{})
			switch {
			case err == nil:
				admitted.Add(1)
			case !strings.Contains(err.Error(), "guard-window"):
				t.Error(err)
			}
		})
	}
	writers.Wait()
	t.Logf("admitted %d of %d rules; the threshold is %d, and %d replicas run", admitted.Load(), rules, threshold, replicas)
	if n := admitted.Load(); n < threshold || n > replicas*threshold {
		t.Errorf("admitted %d, want %d to %d", n, threshold, replicas*threshold)
	}
	if cluster.Minor() == "1.34" {
		return // its rules have no status
	}
	eventually(t, "each rule has the time at which it began to evict", func(ctx context.Context) error { return written(ctx, authors[0], int(admitted.Load())) })
}

// written is nil if so many rules have the time at which they began to evict, and no others.
func written(ctx context.Context, rules dynamic.ResourceInterface, want int) error {
	list, err := rules.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	evict, say := 0, 0
	for _, item := range list.Items {
		rule := &resourceapi.DeviceTaintRule{} // what is read of it is the same in all versions
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, rule); err != nil {
			return err
		}
		if rule.Spec.Taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
			evict++
		}
		if _, known := guard.Began(rule); known && apimeta.IsStatusConditionTrue(rule.Status.Conditions, guard.BeganCondition) {
			say++
		}
	}
	if evict != want || say != want {
		return fmt.Errorf("%d rules evict, %d have the time, want %d", evict, say, want)
	}
	return nil
}

func taintRule(t *testing.T, name, device string, effect resourceapi.DeviceTaintEffect) *unstructured.Unstructured {
	t.Helper()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/parallel", Effect: effect}
	rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Driver: new(driver)}
	if device != "" {
		rule.Spec.DeviceSelector.Pool, rule.Spec.DeviceSelector.Device = new("node-1"), &device
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
	must(t, err)
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(cluster.DeviceTaintRules().GroupVersion().WithKind("DeviceTaintRule"))
	return object
}

// rulesAs are the DeviceTaintRules, in the version that the minor has, for a user with all rights.
func rulesAs(t *testing.T, name string) dynamic.ResourceInterface {
	t.Helper()
	config, err := cluster.User(name, "system:masters")
	must(t, err)
	config.QPS, config.Burst = 200, 200
	untyped, err := dynamic.NewForConfig(config)
	must(t, err)
	return untyped.Resource(cluster.DeviceTaintRules())
}

// manyDevices publishes so many devices on a node, with their class and a template.
func manyDevices(t *testing.T, clients kubernetes.Interface, n int) {
	t.Helper()
	devices(t, clients)
	must(t, clients.ResourceV1().ResourceSlices().Delete(t.Context(), "outage", metav1.DeleteOptions{}))
	node := "node-1"
	for first := 0; first < n; first += resourceapi.ResourceSliceMaxDevices {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("many-", first)}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 2, ResourceSliceCount: int64((n + resourceapi.ResourceSliceMaxDevices - 1) / resourceapi.ResourceSliceMaxDevices)}}}
		for i := first; i < min(n, first+resourceapi.ResourceSliceMaxDevices); i++ {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
		}
		_, err := clients.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = clients.ResourceV1().ResourceSlices().Delete(context.Background(), slice.Name, metav1.DeleteOptions{})
		})
	}
}

// holders creates so many pods with a claim each, waits until they are scheduled, and returns
// their devices.
func holders(t *testing.T, clients kubernetes.Interface, n int) (held []string) {
	t.Helper()
	template, pods := "outage", clients.CoreV1().Pods(metav1.NamespaceDefault)
	for i := range n {
		name := fmt.Sprint("parallel-", i)
		_, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
		}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { _ = pods.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	eventually(t, "all pods have a device", func(ctx context.Context) error {
		claims, err := clients.ResourceV1().ResourceClaims(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		held = nil
		for _, claim := range claims.Items {
			if strings.HasPrefix(claim.Name, "parallel-") && claim.Status.Allocation != nil && len(claim.Status.ReservedFor) > 0 {
				held = append(held, claim.Status.Allocation.Devices.Results[0].Device)
			}
		}
		if len(held) != n {
			return fmt.Errorf("%d of %d", len(held), n)
		}
		return nil
	})
	return held
}
