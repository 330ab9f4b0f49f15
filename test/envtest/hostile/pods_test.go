package hostile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// expensive is a template as costly as the limits of policies let through: 128 distinct
// tolerations, selectors at the cost limit and 80 KB of parameters.
func expensive() resourceapi.ResourceClaimSpec {
	spec := opaque()
	spec.Devices.Config = spec.Devices.Config[:8]
	spec.Devices.Requests = wide(func(i int, alternative *resourceapi.DeviceSubRequest) {
		for k := range 8 {
			alternative.Tolerations = append(alternative.Tolerations, toleration("example.com/tenant-0", resourceapi.DeviceTaintEffectNoExecute, new(int64(i*8+k))))
		}
		alternative.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: costlyCEL(i)}}}
	})[:maxDevices]
	return spec
}

// preexisting are templates from before the release was installed, which exceed every limit. The
// claim controller makes their claims also in mode enforce.
func preexisting() map[string]resourceapi.ResourceClaimSpec {
	return map[string]resourceapi.ResourceClaimSpec{
		"stored-tolerations": claimSpec(tolerant(16)...),
		"stored-parameters":  opaque(),
	}
}

// legacy stores these templates where no webhook looks.
func legacy(t *testing.T) {
	t.Helper()
	admin, ctx := admin(t), t.Context()
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=dra-steward"}
	must(t, admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours))
	must(t, admin.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, ours))
	const first = "tenant-0"
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: first}}, metav1.CreateOptions{})
	mustExist(t, err)
	for name, spec := range preexisting() {
		template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec}}
		eventually(t, "template "+name, func(ctx context.Context) error {
			_, err := admin.ResourceV1().ResourceClaimTemplates(first).Create(ctx, template, metav1.CreateOptions{})
			if err != nil && strings.Contains(err.Error(), "already exists") {
				return nil
			}
			return err
		})
	}
}

// startPods makes pods of costly templates, one after the other, until ctx ends, and fails the
// test if the claim controller does not make a claim. The function it returns waits, and says how
// many there were.
func startPods(ctx context.Context, t *testing.T, n *tenant) func() string {
	t.Helper()
	templates := []string{"expensive"}
	for name := range preexisting() {
		templates = append(templates, name)
	}
	_, err := n.clients.ResourceV1().ResourceClaimTemplates(n.namespace).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: templates[0]}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: expensive()}}, metav1.CreateOptions{})
	mustExist(t, err)
	var running sync.WaitGroup
	var took []time.Duration
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			start := time.Now()
			if err := n.startPod(context.WithoutCancel(ctx), templates[i%len(templates)]); err != nil {
				t.Errorf("a pod of the template %s: %v", templates[i%len(templates)], err)
				return
			}
			took = append(took, time.Since(start))
		}
	})
	return func() string {
		running.Wait()
		if len(took) == 0 {
			t.Error("no pod of a costly template got its claim")
			return "none"
		}
		return fmt.Sprintf("%d, from a pod to its claim p50 %v p99 %v", len(took), at(took, 50), at(took, 99))
	}
}

// startPod makes a pod, waits for its claim, and deletes the pod.
func (n *tenant) startPod(ctx context.Context, template string) error {
	pods := n.clients.CoreV1().Pods(n.namespace)
	pod := waiting()
	pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = new(template)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && len(now.Status.ResourceClaimStatuses) > 0 && now.Status.ResourceClaimStatuses[0].ResourceClaimName != nil, nil
	})
	if err != nil {
		return fmt.Errorf("its claim: %w", err)
	}
	return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}
