package installed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/dra-steward/dra-steward/internal/controllers/extendedclaims"
)

// TestSlippedThrough: a pod that asks for more devices by an extended resource than a policy
// allows, and is created while no replica answers, gets its claim from kube-scheduler. Its author
// reads in one event which policy refuses it, also after the controller starts again.
func TestSlippedThrough(t *testing.T) {
	values := enforcing(map[string]any{"policies": map[string]any{
		"modes":      map[string]any{"DRA-CLAIM-003": "deny"},
		"parameters": map[string]any{"DRA-CLAIM-003": map[string]any{"classes": map[string]any{driver: 2}}},
	}})
	c, clients := install(t, values)
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	devices(t, clients)
	extended := resourceapi.ResourceDeviceClassPrefix + driver
	if cluster.Minor() == "1.34" { // kube-scheduler knows only declared names: kubernetes#133366
		extended = declare(t, clients)
	}
	eventually(t, "a pod above the limit is refused", func(context.Context) error {
		_, err := holder(t, clients, "refused", extended, 3)
		if err == nil || !strings.Contains(err.Error(), "DRA-CLAIM-003") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})

	scale(t, clients, 0)
	eventually(t, "no webhook runs", func(context.Context) error { return count(0) })
	for name, n := range map[string]int64{"slipped": 3, "allowed": 2} {
		pod, err := holder(t, clients, name, extended, n)
		must(t, err)
		eventually(t, "kube-scheduler creates the claim of pod "+name, func(ctx context.Context) error { return hasClaim(ctx, clients, pod) })
	}
	eventually(t, "an event names the policy", func(ctx context.Context) error { return refusals(ctx, clients, "slipped", 1) })
	replace(t, clients, "controller")
	scale(t, clients, 2)
	waitReady(t, c)
	eventually(t, "the new controller has checked the claim", func(context.Context) error {
		for _, pod := range kubelet.Pods("controller") {
			if strings.Contains(kubelet.Log(pod.Object.Name), "a claim for extended resources is refused by rules or policies") {
				return nil
			}
		}
		return errors.New("it does not say so")
	})
	must(t, refusals(t.Context(), clients, "slipped", 1))
	must(t, refusals(t.Context(), clients, "allowed", 0))
}

// declare gives the class a name as an extended resource.
func declare(t *testing.T, clients kubernetes.Interface) string {
	t.Helper()
	classes := clients.ResourceV1().DeviceClasses()
	class, err := classes.Get(t.Context(), driver, metav1.GetOptions{})
	must(t, err)
	class.Spec.ExtendedResourceName = new("example.com/gpu")
	_, err = classes.Update(t.Context(), class, metav1.UpdateOptions{})
	must(t, err)
	return *class.Spec.ExtendedResourceName
}

// holder creates a pod that asks for so many devices by an extended resource.
func holder(t *testing.T, clients kubernetes.Interface, name, extended string, n int64) (*corev1.Pod, error) {
	t.Helper()
	amount := corev1.ResourceList{corev1.ResourceName(extended): *resource.NewQuantity(n, resource.DecimalSI)}
	pods := clients.CoreV1().Pods(metav1.NamespaceDefault)
	t.Cleanup(func() { _ = pods.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Limits: amount, Requests: amount}}}}}, metav1.CreateOptions{})
}

// hasClaim is nil once a pod has a claim for its extended resources.
func hasClaim(ctx context.Context, clients kubernetes.Interface, pod *corev1.Pod) error {
	now, err := clients.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err == nil && now.Status.ExtendedResourceClaimStatus == nil {
		return fmt.Errorf("no claim: %v", now.Status.Conditions)
	}
	return err
}

// refusals is nil if a pod has so many events about the refusal of its claim.
func refusals(ctx context.Context, clients kubernetes.Interface, pod string, want int) error {
	events, err := clients.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + extendedclaims.Reason + ",involvedObject.name=" + pod})
	if err != nil {
		return err
	}
	for _, event := range events.Items {
		for _, part := range []string{"DRA-CLAIM-003", "asks for 3 devices of class gpu.example.com, more than 2", "container main", "ask for fewer devices", "delete it, and create it"} {
			if !strings.Contains(event.Message, part) {
				return fmt.Errorf("the event lacks %q: %s", part, event.Message)
			}
		}
	}
	if len(events.Items) != want {
		return fmt.Errorf("%d events on pod %s, want %d", len(events.Items), pod, want)
	}
	return nil
}
