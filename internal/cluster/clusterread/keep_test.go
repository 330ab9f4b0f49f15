package clusterread

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/devices/taints"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestKeepPod: report reads the arguments and ports of the containers of a release, and placement their requests.
func TestKeepPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := corev1.Container{Name: "controller", Image: "image", Args: []string{"controller", "--mode=full"}, Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8080}},
		Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}, RestartPolicy: &always,
		Env: []corev1.EnvVar{{Name: "A"}}, VolumeMounts: []corev1.VolumeMount{{Name: "data"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container}, InitContainers: []corev1.Container{container}, Volumes: []corev1.Volume{{Name: "data"},
			{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}},
			SchedulerName: "other", Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{}}}}}}
	k := &keeper{}
	if err := k.keep(pod); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.SchedulerName != "other" || pod.Spec.Affinity == nil || pod.Spec.Volumes[0].PersistentVolumeClaim == nil {
		t.Errorf("what decides where it lands is lost: %+v", pod.Spec)
	}
	for _, c := range append(pod.Spec.Containers, pod.Spec.InitContainers...) {
		if len(c.Args) != 2 || len(c.Ports) != 1 || len(c.Resources.Claims) != 1 || c.RestartPolicy == nil || c.Image == "" {
			t.Errorf("kept %+v", c)
		}
		if len(c.Env)+len(c.VolumeMounts)+len(pod.ManagedFields) > 0 || len(pod.Spec.Volumes) != 1 {
			t.Errorf("kept %+v", c)
		}
	}
}

// TestIndexed: of claims and pods that are read for an index, it finds what it finds in the whole objects, and the health of
// devices is kept.
func TestIndexed(t *testing.T) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "claim", UID: "c", Annotations: map[string]string{"a": "b"}},
		Status: resourceapi.ResourceClaimStatus{ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "p"}},
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"}}}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", UID: "p", Annotations: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "trainer"}}, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("claim")}}}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trainer", Image: "image", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "claim:gpu",
		Resources: []corev1.ResourceHealth{{ResourceID: "gpu.example.com/node-1/gpu-0", Health: corev1.ResourceHealthStatusUnhealthy}}}}}}
	k := &keeper{indexed: true}
	index := taints.Objects{Claims: []*resourceapi.ResourceClaim{claim}, Pods: []*corev1.Pod{pod}}
	want := index.Index().Devices("team", "pod")
	for _, object := range []runtime.Object{claim, pod} {
		if err := k.keep(object); err != nil {
			t.Fatal(err)
		}
	}
	if got := index.Index().Devices("team", "pod"); len(want) != 1 || !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
	if kept := pod.Status.ContainerStatuses; len(kept) != 1 || len(kept[0].AllocatedResourcesStatus) != 1 || kept[0].Image != "" {
		t.Errorf("statuses %+v", kept)
	}
	if len(claim.Annotations)+len(pod.Annotations)+len(pod.Spec.Containers) > 0 {
		t.Errorf("kept %+v and %+v", claim, pod)
	}
}

// TestDropAttributes: devices stay, with their taints and those of rules, patched ones as well.
func TestDropAttributes(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1", ResourceSliceCount: 1}, Devices: []resourceapi.Device{{Name: "gpu-0",
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: new("A")}}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {}}}}}}
	patch := &v1alpha1.ResourceSlicePatch{ObjectMeta: metav1.ObjectMeta{Name: "patch"}, Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{
		Attributes: map[resourceapi.FullyQualifiedName]v1alpha1.NullableDeviceAttribute{"example.com/rack": {DeviceAttribute: resourceapi.DeviceAttribute{StringValue: new("7")}}}}}}
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}, Spec: resourceapi.DeviceTaintRuleSpec{
		DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new("gpu.example.com")}, Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	s := &State{View: tracker.Merge(slice, patch, rule)}
	s.dropAttributes()
	devices := slices.Collect(s.View.Devices())
	if len(devices) != 1 || len(devices[0].Taints()) != 1 {
		t.Fatalf("devices %+v", devices)
	}
	for _, all := range [][]*resourceapi.ResourceSlice{slices.Collect(s.View.StoredSlices()), slices.Collect(s.View.PublishedSlices()), s.View.List(labels.Everything())} {
		if d := all[0].Spec.Devices[0]; len(d.Attributes)+len(d.Capacity) > 0 || d.Name != "gpu-0" {
			t.Errorf("kept %+v", d)
		}
	}
}

// TestNoAttributes: attributes that a patch may change, select or have changed are kept.
func TestNoAttributes(t *testing.T) {
	patch := func(filter *v1alpha1.DevicePatchFilter) []any {
		return []any{&v1alpha1.ResourceSlicePatch{Spec: v1alpha1.ResourceSlicePatchSpec{Devices: v1alpha1.DevicePatch{Filter: filter}}}}
	}
	for name, tt := range map[string]struct {
		annotations map[string]string
		patches     []any
		kept        bool
	}{
		"no patch":                {nil, nil, false},
		"a patch of all devices":  {nil, patch(nil), true},
		"of the pool":             {nil, patch(&v1alpha1.DevicePatchFilter{Driver: new("gpu.example.com"), Pool: new("node-1")}), true},
		"of the driver":           {nil, patch(&v1alpha1.DevicePatchFilter{Driver: new("gpu.example.com")}), true},
		"of a class":              {nil, patch(&v1alpha1.DevicePatchFilter{DeviceClassName: new("gpu")}), true},
		"of another pool":         {nil, patch(&v1alpha1.DevicePatchFilter{Pool: new("node-2")}), false},
		"of another driver":       {nil, patch(&v1alpha1.DevicePatchFilter{Driver: new("nic.example.com"), Pool: new("node-1")}), false},
		"with values of a driver": {map[string]string{"dra-steward.io/originals": "{}"}, nil, true},
	} {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Annotations: tt.annotations}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "node-1"}, Devices: []resourceapi.Device{{Name: "gpu-0",
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: new("A")}}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {}}}}}}
		k := &keeper{unread: func(slice *resourceapi.ResourceSlice) bool { return unpatched(slice, tt.patches) }}
		if err := k.keep(slice); err != nil {
			t.Fatal(err)
		}
		if d := slice.Spec.Devices[0]; (d.Attributes != nil) != tt.kept || (d.Capacity != nil) != tt.kept || d.Name != "gpu-0" {
			t.Errorf("%s: kept %+v, want its attributes and capacity: %v", name, d, tt.kept)
		}
	}
}
