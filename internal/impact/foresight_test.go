package impact

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/placement"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A fixedView has devices that do not change.
type fixedView struct{ devices *tracker.Snapshot }

func (v fixedView) Minor() int { return 37 }

// Snapshot panics for a view without devices, as a fault of the allocator does.
func (v fixedView) Snapshot() *tracker.Snapshot {
	if v.devices == nil {
		panic("no devices")
	}
	return v.devices
}

// crowded is a cluster of two nodes with two devices each: three are held by pods of a
// ReplicaSet, one is free. The claims of the pods on node a are from a template.
func crowded(t *testing.T) *Foresight {
	t.Helper()
	f := &Foresight{busy: make(chan struct{}, 1)}
	var view []any
	for _, store := range []*cache.Store{&f.pods, &f.claims, &f.nodes, &f.templates} {
		*store = cache.NewStore(cache.MetaNamespaceKeyFunc)
	}
	add := func(store cache.Store, object any) {
		kept, err := placement.Keep(object)
		if err == nil {
			err = store.Add(kept)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpu"}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	add(f.templates, template)
	view = append(view, class)
	for _, node := range []string{"a", "b"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("10")}
		add(f.nodes, n)
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}, Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}}}}
		view = append(view, slice)
	}
	for i, at := range []string{"a/gpu-0", "a/gpu-1", "b/gpu-0"} {
		node, device, _ := strings.Cut(at, "/")
		name := fmt.Sprintf("train-%d", i)
		owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "train", UID: "rs", Controller: new(true)}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), OwnerReferences: owner}}
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template.Name}}
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new(name)}}
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, Finalizers: []string{resourceapi.Finalizer},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(name), Controller: new(true)}}}, Spec: template.Spec.Spec}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
		claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: "gpu.example.com", Pool: node, Device: device}}}}
		add(f.pods, pod)
		add(f.claims, claim)
	}
	f.view = fixedView{tracker.Merge(view...)}
	return f
}

// broken is a rule about the devices of a node.
func broken(node string, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: &node},
		Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: effect}}}
}

func noDrain(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error) { return nil, nil }

// TestStranded: of two pods on a node that is taken away, one lands on the free device.
func TestStranded(t *testing.T) {
	f := crowded(t)
	got := f.Stranded(t.Context(), broken("a", resourceapi.DeviceTaintEffectNoExecute), noDrain)
	if got.NotComputed != "" || got.Pods != 1 || len(got.Names) != 1 || !strings.HasPrefix(got.Names[0], "ml/train-") {
		t.Errorf("two of a leave: %+v", got)
	}
	if got := f.Stranded(t.Context(), broken("b", resourceapi.DeviceTaintEffectNoExecute), noDrain); got.NotComputed != "" || got.Pods != 1 {
		t.Errorf("one of b leaves, and no device is free but those of b: %+v", got)
	}
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "service"}}
	one := func(device string) func(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error) {
		return func(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error) {
			return map[usage.DeviceID]bool{{Driver: "gpu.example.com", Pool: "a", Device: device}: true}, nil
		}
	}
	if got := f.Stranded(t.Context(), drain, one("gpu-0")); got.NotComputed != "" || got.Pods != 0 {
		t.Errorf("drain of one device: %+v", got)
	}
}

// TestStrandedIsBounded: what takes too long, waits for others or panics is not computed, and
// the answer comes in time.
func TestStrandedIsBounded(t *testing.T) {
	rule := broken("a", resourceapi.DeviceTaintEffectNoExecute)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	f := crowded(t)
	slow := func(*v1alpha1.DeviceDrain) (map[usage.DeviceID]bool, error) {
		<-short.Done()
		return map[usage.DeviceID]bool{{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}: true}, nil
	}
	if got := f.Stranded(short, &v1alpha1.DeviceDrain{}, slow); !strings.Contains(got.NotComputed, "it takes") {
		t.Errorf("no time: %+v", got)
	}
	f.busy <- struct{}{} // waits for the simulation that was late
	limited, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if got := f.Stranded(limited, rule, noDrain); got.NotComputed != "other writes are checked" {
		t.Errorf("busy: %+v", got)
	}
	<-f.busy
	f.view = fixedView{}
	if got := f.Stranded(t.Context(), rule, noDrain); got.NotComputed != "the allocator of kube-scheduler panics: no devices" {
		t.Errorf("panic: %+v", got)
	}
	if got := f.Stranded(t.Context(), rule, noDrain); !strings.Contains(got.NotComputed, "panics") {
		t.Errorf("after a panic: %+v", got)
	}
}
