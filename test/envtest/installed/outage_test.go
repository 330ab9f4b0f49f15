package installed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestOutage: whatever becomes of the webhook, pods with claims are scheduled and
// run; when it is back, the cluster is guarded again within seconds. The webhook is
// stopped in order, killed, and made to hang, which is the worst.
func TestOutage(t *testing.T) {
	c, clients := install(t, nil)
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	devices(t, clients)
	for name, outage := range map[string]struct{ down, up func(*testing.T) }{
		"scaled to nothing": {
			func(t *testing.T) {
				scale(t, clients, 0)
				eventually(t, "no webhook is left", func(context.Context) error { return count(0) })
			},
			func(t *testing.T) { scale(t, clients, 2) },
		},
		"killed": {
			func(t *testing.T) { signalAll(t, "webhook", syscall.SIGKILL) },
			func(t *testing.T) { replace(t, clients, "webhook") },
		},
		"hanging": {
			func(t *testing.T) { signalAll(t, "webhook", syscall.SIGSTOP) },
			func(t *testing.T) { signalAll(t, "webhook", syscall.SIGCONT) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			outage.down(t)
			start := time.Now()
			name := runs(t, clients)
			t.Logf("down: a pod with a claim ran after %v", time.Since(start).Round(time.Millisecond))
			if err := guarded(t.Context(), clients); err == nil || apierrors.IsForbidden(err) {
				t.Error("the webhook is not down")
			}
			must(t, clients.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}))
			start = time.Now()
			outage.up(t)
			eventually(t, "guarded again", func(ctx context.Context) error { return guarded(ctx, clients) })
			t.Logf("back: guarded after %v", time.Since(start).Round(time.Millisecond))
			waitReady(t, c)
		})
	}
}

// devices publishes eight devices on a node, a class of them and a template.
func devices(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	node := "node-1"
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "outage"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	for i := range 8 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", i)})
	}
	_, err := clients.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.ResourceV1().DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)}}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = clients.ResourceV1().ResourceClaimTemplates(metav1.NamespaceDefault).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "outage"}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: goodClaim().Spec}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		_ = clients.ResourceV1().ResourceSlices().Delete(ctx, "outage", metav1.DeleteOptions{})
		_ = clients.ResourceV1().DeviceClasses().Delete(ctx, driver, metav1.DeleteOptions{})
		_ = clients.ResourceV1().ResourceClaimTemplates(metav1.NamespaceDefault).Delete(ctx, "outage", metav1.DeleteOptions{})
	})
}

// runs creates a pod with a claim and waits until it runs; it returns the pod's name.
func runs(t *testing.T, clients kubernetes.Interface) string {
	t.Helper()
	template, pods := "outage", clients.CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "outage-"}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
	}}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the pod runs", func(ctx context.Context) error {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%s: %v", now.Status.Phase, now.Status.Conditions)
		}
		return err
	})
	return pod.Name
}

func scale(t *testing.T, clients kubernetes.Interface, replicas int) {
	t.Helper()
	_, err := clients.AppsV1().Deployments(namespace).Patch(t.Context(), "dra-steward", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{})
	must(t, err)
}

// count is nil if so many webhooks run, with those that are ending.
func count(want int) error {
	if got := len(kubelet.All("webhook")); got != want {
		return fmt.Errorf("%d webhooks, want %d", got, want)
	}
	return nil
}

// signalAll sends a signal to the processes of a component. One of them may end just now, if a roll goes on; that none
// gets the signal is a failure.
func signalAll(t *testing.T, component string, s syscall.Signal) {
	t.Helper()
	sent := 0
	for _, pod := range kubelet.Pods(component) {
		if err := pod.Signal(s); !errors.Is(err, os.ErrProcessDone) {
			must(t, err)
			sent++
		}
	}
	if sent == 0 {
		t.Fatalf("no %s runs that could get %v", component, s)
	}
}

// replace deletes the pods of a component, in whose place the ReplicaSet makes others. A roll may delete one of them
// first.
func replace(t *testing.T, clients kubernetes.Interface, component string) {
	t.Helper()
	for _, pod := range kubelet.Pods(component) {
		err := clients.CoreV1().Pods(namespace).Delete(t.Context(), pod.Object.Name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			must(t, err)
		}
	}
}
