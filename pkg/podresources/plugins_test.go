package podresources_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/dra-steward/dra-steward/pkg/podresources"
)

// TestPlugins: devices of device plugins are holdings, once each, with the UID of the pod and
// the state of the container where the API server knows them.
func TestPlugins(t *testing.T) {
	container := func(name string, devices ...*v1.ContainerDevices) *v1.ContainerResources {
		return &v1.ContainerResources{Name: name, Devices: devices}
	}
	gpus := func(ids ...string) *v1.ContainerDevices {
		return &v1.ContainerDevices{ResourceName: "vendor.example/gpu", DeviceIds: ids}
	}
	in := podresources.Input{
		Listing: &podresources.Listing{Pods: []*v1.PodResources{
			{Namespace: "ml", Name: "train", Containers: []*v1.ContainerResources{container("main", gpus("GPU-1", "GPU-0"), gpus("GPU-0")), container("sidecar")}},
			{Namespace: "ml", Name: "static", Containers: []*v1.ContainerResources{container("main", gpus("GPU-2"))}},
			{Namespace: "ml", Name: "done", Containers: []*v1.ContainerResources{container("main", gpus("GPU-3"))}},
		}},
		Pods: []*corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train", UID: "1"}, Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: running}}}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "done"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}},
		},
	}
	held := func(pod, id string) podresources.Holding {
		return podresources.Holding{Namespace: "ml", Pod: pod, Container: "main", Resource: "vendor.example/gpu", Device: id,
			Prepared: podresources.PreparedYes, Source: podresources.FromPodResources, Exactness: podresources.CDIUnknown}
	}
	want := []podresources.Holding{held("static", "GPU-2"), held("train", "GPU-0"), held("train", "GPU-1")}
	for i := range want[1:] {
		want[1+i].PodUID, want[1+i].State = "1", "running"
	}
	got := podresources.Attribute(in)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	in.Listing.Complete = true
	if answer, err := serve(in).List(t.Context(), nil); err != nil || len(answer.GetPodResources()[0].GetContainers()[0].GetDynamicResources()) != 0 {
		t.Errorf("a device of a device plugin is no claim: %v, %v", answer, err)
	}
}
