package usage_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Example asks who would be hit by a taint on every device.
func Example() {
	name := "training"
	var index usage.Index
	index.SetPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "worker", UID: "1"},
		Spec:       corev1.PodSpec{NodeName: "node-1", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}},
	})
	index.SetClaim(&resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name},
		Status: resourceapi.ResourceClaimStatus{
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "worker", UID: "1"}},
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}},
			}},
		},
	})
	impact := index.Impact(&resourceapi.DeviceTaintSelector{}, nil)
	fmt.Println(impact.Devices, impact.Pods)
	// Output: [gpu.example.com/node-1/gpu-0] [ml/worker]
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := "c"
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"},
			Spec:       corev1.PodSpec{NodeName: "n", ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}},
		}
		claim := &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Status: resourceapi.ResourceClaimStatus{
				ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "1"}},
				Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
					Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "dev"}},
				}},
			},
		}
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"},
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
		client := fake.NewClientset(pod, claim, budget)
		factory := informers.NewSharedInformerFactory(client, 0)
		var index usage.Index
		synced, stop, err := index.Listen(usage.Informers{
			Claims:  factory.Resource().V1().ResourceClaims().Informer(),
			Pods:    factory.Core().V1().Pods().Informer(),
			Budgets: factory.Policy().V1().PodDisruptionBudgets().Informer(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		defer cancel()
		if !cache.WaitFor(ctx, "the index", synced...) {
			t.Fatal("not synced")
		}
		synctest.Wait() // until it watches: the fake API forgets what happens between list and watch
		all := &resourceapi.DeviceTaintSelector{}
		if got := index.Impact(all, nil); len(got.Pods) != 1 || len(got.Budgets) != 1 || got.Budgets[0].Pods != 1 {
			t.Errorf("%+v", got)
		}
		if err := client.CoreV1().Pods("ns").Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := index.Impact(all, nil); len(got.Pods) != 0 || len(got.Claims) != 1 {
			t.Errorf("%+v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
