package installed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestLeaseOfOthers: another holder of the Lease stops the controller that led, so that never two
// work for longer than it takes to notice. When that holder does not renew, a controller of the
// release leads again.
func TestLeaseOfOthers(t *testing.T) {
	_, clients := install(t, quick())
	before := kubelet.Pods("controller")
	_, err := clients.CoordinationV1().Leases(namespace).Patch(t.Context(), "dra-steward-controller", types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":"someone-else","leaseDurationSeconds":15,"renewTime":"2999-01-01T00:00:00.000000Z"}}`), metav1.PatchOptions{})
	must(t, err)
	eventually(t, "the controller that led says so and ends", func(context.Context) error {
		for _, pod := range before {
			if strings.Contains(kubelet.Log(pod.Object.Name), "lost the Lease") {
				return nil
			}
		}
		return errors.New("it does not")
	})
	replace(t, clients, "controller")
	eventually(t, "a controller of the release leads again", func(ctx context.Context) error {
		lease, err := clients.CoordinationV1().Leases(namespace).Get(ctx, "dra-steward-controller", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" || *holder == "someone-else" {
			return errors.New("the Lease is held by someone else")
		}
		return leads(ctx, clients)
	})
}

// TestKilledRewrite: webhook and controller are killed while they write a patch into slices, and
// while they take it out again. In the end each slice has the value of the patch, and then again
// the value of its driver.
func TestKilledRewrite(t *testing.T) {
	const slices = 40
	values := quick()
	values["patches"] = map[string]any{"mode": "materialize", "poolsPerSecond": 5}
	c, clients := install(t, values)
	h := newHelm(t, clients)
	t.Cleanup(func() { restore(t, h, quick()); waitReady(t, c) })
	eventually(t, "guarded", func(ctx context.Context) error { return guarded(ctx, clients) })
	for i := range slices {
		node, model := "node-1", "own"
		name := fmt.Sprintf("rewrite-%02d", i)
		_, err := clients.ResourceV1().ResourceSlices().Create(t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "gpu", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}}}}}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = clients.ResourceV1().ResourceSlices().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "dra-steward.io/v1alpha1", "kind": "ResourceSlicePatch",
		"metadata": map[string]any{"name": "rewrite"}, "spec": map[string]any{"devices": map[string]any{
			"filter": map[string]any{"driver": driver}, "attributes": map[string]any{driver + "/model": map[string]any{"string": "patched"}}}}}}
	t.Cleanup(func() { _ = c.Delete(context.Background(), patch) })
	must(t, c.Create(t.Context(), patch))
	killWhile(t, c, clients, slices, "patched")
	must(t, c.Delete(t.Context(), patch))
	killWhile(t, c, clients, slices, "own")
}

// killWhile kills all replicas while slices get another model, and waits until all have it.
func killWhile(t *testing.T, c client.Client, clients kubernetes.Interface, slices int, model string) {
	t.Helper()
	// The rest takes seconds, also where this test has to wait for a processor.
	eventually(t, "a slice is "+model, func(ctx context.Context) error { return haveModel(ctx, clients, 1, model) })
	if haveModel(t.Context(), clients, slices, model) == nil {
		t.Errorf("all slices are %s before the kill", model)
	}
	for _, component := range []string{"controller", "webhook"} {
		signalAll(t, component, syscall.SIGKILL)
		replace(t, clients, component)
	}
	waitReady(t, c)
	eventually(t, "all slices are "+model, func(ctx context.Context) error { return haveModel(ctx, clients, slices, model) })
}

// haveModel is nil if at least so many slices have a model.
func haveModel(ctx context.Context, clients kubernetes.Interface, want int, model string) error {
	list, err := clients.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	got := 0
	for _, slice := range list.Items {
		if !strings.HasPrefix(slice.Name, "rewrite-") {
			continue
		}
		for name, attribute := range slice.Spec.Devices[0].Attributes {
			if strings.HasSuffix(string(name), "model") && attribute.StringValue != nil && *attribute.StringValue == model {
				got++
			}
		}
	}
	if got < want {
		return fmt.Errorf("%d of %d", got, want)
	}
	return nil
}
