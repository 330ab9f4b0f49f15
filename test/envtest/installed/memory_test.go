package installed

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/dra-steward/dra-steward/test/envtest/internal/installed"
)

// TestMemory measures what webhooks and controller hold with 10,000 slices of 8 devices,
// and how long they take to be ready then.
func TestMemory(t *testing.T) {
	if os.Getenv("DRA_STEWARD_LONG") == "" {
		t.Skip("takes minutes; make test-long runs it")
	}
	c, clients := install(t, nil)
	measure(t, "without a slice")
	const slices = 10000
	start := time.Now()
	publish10k(t, slices)
	t.Logf("%d slices published in %v", slices, time.Since(start).Round(time.Second))
	t.Cleanup(func() {
		_ = clients.ResourceV1().ResourceSlices().DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	measure(t, "after they were published")
	replace(t, clients, "webhook")
	replace(t, clients, "controller")
	eventually(t, "others run", func(ctx context.Context) error {
		for _, pod := range append(kubelet.Pods("webhook"), kubelet.Pods("controller")...) {
			if pod.Started.Before(start) || pod.Ready().IsZero() {
				return fmt.Errorf("%s: ready %v", pod.Object.Name, pod.Ready())
			}
		}
		return installed.Available(ctx, c, namespace)
	})
	measure(t, "started with them")
}

func measure(t *testing.T, when string) {
	t.Helper()
	for _, component := range []string{"webhook", "controller"} {
		for _, pod := range kubelet.Pods(component) {
			memory, err := pod.Memory()
			must(t, err)
			t.Logf("%s, %s: %d MiB, start to ready %v", component, when, memory>>20, pod.Ready().Sub(pod.Started).Round(time.Millisecond))
		}
	}
}

// publish10k creates slices of eight devices with four attributes each.
func publish10k(t *testing.T, n int) {
	t.Helper()
	config := cluster.Config()
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	text, number := "A100-SXM4-80GB", int64(7)
	must(t, each(context.WithoutCancel(t.Context()), n, func(ctx context.Context, i int) error {
		node := fmt.Sprintf("node-%05d", i)
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
		for d := range 8 {
			uuid := fmt.Sprintf("GPU-%05d-%d", i, d)
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", d),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
					"model": {StringValue: &text}, "uuid": {StringValue: &uuid}, "index": {IntValue: &number}, "minor": {IntValue: &number}}})
		}
		_, err := clients.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{})
		return err
	}))
}
