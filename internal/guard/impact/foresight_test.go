package impact

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/kubernetes/gates"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// A fixedView has devices that do not change.
type fixedView struct {
	devices *tracker.Snapshot
	// gates are the defaults if they are nil.
	gates *gates.Gates
}

func (v fixedView) Minor() int { return 37 }

func (v fixedView) Gates(minor int) gates.Gates {
	if v.gates != nil {
		return *v.gates
	}
	return gates.Defaults(minor)
}

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
	f.view = fixedView{devices: tracker.Merge(view...)}
	return f
}

// broken is a rule about the devices of a node.
func broken(node string, effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
	return &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: &node},
		Taint:          resourceapi.DeviceTaint{Key: "example.com/broken", Effect: effect}}}
}

// TestStranded: of two pods on a node that is taken away, one lands on the free device.
func TestStranded(t *testing.T) {
	f := crowded(t)
	got := f.Stranded(t.Context(), broken("a", resourceapi.DeviceTaintEffectNoExecute), nil)
	if got.NotComputed != "" || got.Pods != 1 || len(got.Names) != 1 || !strings.HasPrefix(got.Names[0], "ml/train-") {
		t.Errorf("two of a leave: %+v", got)
	}
	if got := f.Stranded(t.Context(), broken("b", resourceapi.DeviceTaintEffectNoExecute), nil); got.NotComputed != "" || got.Pods != 1 {
		t.Errorf("one of b leaves, and no device is free but those of b: %+v", got)
	}
	drain := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "service"}}
	if got := f.Stranded(t.Context(), drain, []usage.DeviceID{{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}}); got.NotComputed != "" || got.Pods != 0 {
		t.Errorf("drain of one device: %+v", got)
	}
	// A reaction and a roll drain the devices that are counted for them.
	for _, object := range []any{
		&v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: "xid"}}, &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "kernel"}},
	} {
		one := []usage.DeviceID{{Driver: "gpu.example.com", Pool: "a", Device: "gpu-0"}}
		if got := f.Stranded(t.Context(), object, one); got.NotComputed != "" || got.Pods != 0 {
			t.Errorf("%T, one device: %+v", object, got)
		}
		both := append(one, usage.DeviceID{Driver: "gpu.example.com", Pool: "a", Device: "gpu-1"})
		if got := f.Stranded(t.Context(), object, both); got.NotComputed != "" || got.Pods != 1 || len(got.Names) != 1 {
			t.Errorf("%T, two devices: %+v", object, got)
		}
	}
	if got := f.Stranded(t.Context(), &v1alpha1.ResourceSlicePatch{}, nil); got.NotComputed != "it is not computed for objects of this kind" {
		t.Errorf("another kind: %+v", got)
	}
}

// TestStrandedGates: pods land with the feature gates of the cluster, not with those of the version.
func TestStrandedGates(t *testing.T) {
	f := crowded(t)
	view := f.view.(fixedView)
	view.gates = new(gates.With(map[string]bool{"DRADeviceTaints": false}, view.Minor(), "a test"))
	f.view = view
	if got := f.Stranded(t.Context(), broken("a", resourceapi.DeviceTaintEffectNoExecute), nil); got.NotComputed != "" || got.Pods != 0 {
		t.Errorf("kube-scheduler does not look at taints: %+v", got)
	}
}

var groupList = metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1beta1", Kind: "PodGroupList"}

// groupsFrom lists the PodGroups of a server that answers so.
func groupsFrom(t *testing.T, answer func(w http.ResponseWriter)) Groups {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/scheduling.k8s.io/v1beta1/podgroups" || r.URL.Query().Get("limit") != "10000" {
			t.Errorf("read from %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return ListGroups(client.SchedulingV1beta1().RESTClient())
}

// TestStrandedGroups: the pods of a PodGroup land together or not at all. If PodGroups cannot be read,
// that is said where pods of one leave, and only there.
func TestStrandedGroups(t *testing.T) {
	f := crowded(t)
	for _, name := range []string{"train-0", "train-1"} {
		object, _, err := f.pods.GetByKey("ml/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pod := object.(*corev1.Pod).DeepCopy()
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("train")}
		if err := f.pods.Update(pod); err != nil {
			t.Fatal(err)
		}
	}
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "train"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: 2}
	f.groups = groupsFrom(t, func(w http.ResponseWriter) {
		_ = json.NewEncoder(w).Encode(&schedulingapi.PodGroupList{TypeMeta: groupList, Items: []schedulingapi.PodGroup{*group}})
	})
	rule := broken("a", resourceapi.DeviceTaintEffectNoExecute)
	if got := f.Stranded(t.Context(), rule, nil); got.NotComputed != "" || got.Pods != 2 || !strings.Contains(got.Names[0], "its PodGroup needs 2 pods at once") {
		t.Errorf("two of a group leave, for which there is one device: %+v", got)
	}
	f.groups = groupsFrom(t, func(w http.ResponseWriter) {
		_ = json.NewEncoder(w).Encode(&schedulingapi.PodGroupList{TypeMeta: groupList, ListMeta: metav1.ListMeta{Continue: "more"}})
	})
	if got := f.Stranded(t.Context(), rule, nil); got.NotComputed != "PodGroups cannot be read: there are more than 10000" {
		t.Errorf("too many: %+v", got)
	}
	endless := groupsFrom(t, func(w http.ResponseWriter) {
		for page := make([]byte, 1<<20); ; { // as much as is read
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	})
	if _, err := endless(t.Context()); err == nil || err.Error() != "they take more than 32 MiB" {
		t.Errorf("too large: %v", err)
	}
	f.groups = groupsFrom(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) })
	if got := f.Stranded(t.Context(), rule, nil); !strings.HasPrefix(got.NotComputed, "PodGroups cannot be read: ") {
		t.Errorf("without the right: %+v", got)
	}
	if got := f.Stranded(t.Context(), broken("b", resourceapi.DeviceTaintEffectNoExecute), nil); got.NotComputed != "" || got.Pods != 1 {
		t.Errorf("without the right, no pod of a group leaves: %+v", got)
	}
}

// A slowView has no devices until the context is done that it ends.
type slowView struct {
	fixedView
	end   context.CancelFunc
	until <-chan struct{}
}

func (v slowView) Snapshot() *tracker.Snapshot {
	v.end()
	<-v.until
	return v.fixedView.Snapshot()
}

// TestStrandedIsBounded: what takes too long, waits for others or panics is not computed, and
// the answer comes in time.
func TestStrandedIsBounded(t *testing.T) {
	rule := broken("a", resourceapi.DeviceTaintEffectNoExecute)
	short, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := crowded(t)
	fast := f.view
	f.view = slowView{fast.(fixedView), cancel, short.Done()}
	if got := f.Stranded(short, rule, nil); !strings.Contains(got.NotComputed, "it takes") {
		t.Errorf("no time: %+v", got)
	}
	f.busy <- struct{}{} // waits for the simulation that was late
	f.view = fast
	limited, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if got := f.Stranded(limited, rule, nil); got.NotComputed != "other writes are checked" {
		t.Errorf("busy: %+v", got)
	}
	<-f.busy
	f.view = fixedView{}
	if got := f.Stranded(t.Context(), rule, nil); got.NotComputed != "the allocator of kube-scheduler panics: no devices" {
		t.Errorf("panic: %+v", got)
	}
	if got := f.Stranded(t.Context(), rule, nil); !strings.Contains(got.NotComputed, "panics") {
		t.Errorf("after a panic: %+v", got)
	}
}

// TestStrandedOfNone: where no pods leave, the allocator is not asked.
func TestStrandedOfNone(t *testing.T) {
	f := crowded(t)
	f.view = fixedView{} // panics
	got := (&Estimator{Index: &usage.Index{}, foresight: f}).stranded(t.Context(), broken("a", resourceapi.DeviceTaintEffectNoExecute), nil)
	if !got.Known() || got.Pods != 0 {
		t.Errorf("got %+v", got)
	}
}
