package guard_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// offerDevice makes a class and a slice with one device for the scheduler.
func offerDevice(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	resource := c.ResourceV1()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}},
	}}
	if _, err := resource.DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := resource.ResourceSlices().Create(t.Context(), slice("offered", gpus(1)...), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		resource.DeviceClasses().Delete(ctx, driver, metav1.DeleteOptions{})
		resource.ResourceSlices().Delete(ctx, "offered", metav1.DeleteOptions{})
	})
}

// TestNeverAllocatedClaimGoes deletes a claim that has the finalizer from its first
// moment and that no scheduler ever saw.
func TestNeverAllocatedClaimGoes(t *testing.T) {
	_, c, _ := guarded(t, nil)
	claims := c.ResourceV1().ResourceClaims(namespace)
	created, err := claims.Create(t.Context(), claim("unused"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(created.Finalizers, resourceapi.Finalizer) {
		t.Errorf("finalizers %v, want %s among them", created.Finalizers, resourceapi.Finalizer)
	}
	deleteClaim(t, c, "unused")
}

func deleteClaim(t *testing.T, c kubernetes.Interface, name string) {
	t.Helper()
	claims := c.ResourceV1().ResourceClaims(namespace)
	if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim goes", func(ctx context.Context) (bool, error) {
		_, err := claims.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestFinalizerLifeCycle takes a claim through two pods with the real scheduler and
// claim controller, and out.
func TestFinalizerLifeCycle(t *testing.T) {
	_, c, _ := guarded(t, nil)
	offerDevice(t, c)
	if _, err := c.ResourceV1().ResourceClaims(namespace).Create(t.Context(), claim("reused"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"first", "second"} {
		runPod(t, c, pod, "reused")
		eventually(t, "the claim is deallocated", func(ctx context.Context) (bool, error) {
			claim, err := c.ResourceV1().ResourceClaims(namespace).Get(ctx, "reused", metav1.GetOptions{})
			return err == nil && claim.Status.Allocation == nil, err
		})
	}
	deleteClaim(t, c, "reused")
}

// runPod creates a pod that uses a claim, waits until it runs, and deletes it.
func runPod(t *testing.T, c kubernetes.Interface, name, claimName string) {
	t.Helper()
	pods := c.CoreV1().Pods(namespace)
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claimName}},
			Containers: []corev1.Container{{
				Name: "train", Image: "registry.example.com/train:1",
				Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod runs", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
	claim, err := c.ResourceV1().ResourceClaims(namespace).Get(t.Context(), claimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil || !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		t.Errorf("while a pod runs the claim has allocation %v and finalizers %v, want both", claim.Status.Allocation, claim.Finalizers)
	}
	if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod goes", func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestAllocationWithoutFinalizer is what an allocator does that forgets the
// finalizer, and what it has to do instead.
func TestAllocationWithoutFinalizer(t *testing.T) {
	_, c, seen := guarded(t, map[string]any{"defaults": map[string]any{"finalizer": "repair"}})
	claims := c.ResourceV1().ResourceClaims(namespace)
	created, err := claims.Create(t.Context(), claim("foreign"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.Finalizers) > 0 {
		t.Fatalf("mode repair adds finalizers %v to a new claim", created.Finalizers)
	}
	seen.take() // the class does not exist
	created.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: node, Device: "gpu-a"}},
	}}
	_, err = claims.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
	wantDenied(t, err, "metadata.finalizers", resourceapi.Finalizer, "by an update of the claim itself first", "allocation-finalizer")

	allocation := created.Status.Allocation
	created.Finalizers = append(created.Finalizers, resourceapi.Finalizer)
	if created, err = claims.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	created.Status.Allocation = allocation
	if _, err = claims.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("allocation with the finalizer: %v", err)
	}
	if got := seen.take(); got != "" {
		t.Errorf("warnings %q, want none", got)
	}
	deleteClaim(t, c, "foreign")
}

// TestRepair gives an allocated claim the finalizer that it lacks, with the next
// update by any user.
func TestRepair(t *testing.T) {
	claims := client(t, cluster.Config()).ResourceV1().ResourceClaims(namespace)
	g, _, _ := guarded(t, nil)
	if err := g.Stop(); err != nil { // so that the bad allocation is not denied
		t.Fatal(err)
	}
	leaking, err := claims.Create(t.Context(), claim("leaking"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leaking.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: driver, Pool: node, Device: "gpu-a"}},
	}}
	if _, err = claims.UpdateStatus(t.Context(), leaking, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, c, _ := guarded(t, nil)
	claims = c.ResourceV1().ResourceClaims(namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim, err := claims.Get(t.Context(), "leaking", metav1.GetOptions{})
		if err != nil {
			return err
		}
		claim.Labels = map[string]string{"touched": "yes"}
		claim, err = claims.Update(t.Context(), claim, metav1.UpdateOptions{})
		if err == nil && !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
			t.Errorf("finalizers %v, want %s among them", claim.Finalizers, resourceapi.Finalizer)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	deleteClaim(t, c, "leaking")
}
