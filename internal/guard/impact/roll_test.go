package impact

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestAtATime: a roll counts the devices of the nodes with the most pods, as many as it has in work at a
// time, of its driver and of the nodes that it names.
func TestAtATime(t *testing.T) {
	i := &Estimator{Index: &usage.Index{}}
	var published []any
	for node, pods := range map[string]int{"a": 1, "b": 3, "c": 0, "d": 2} {
		slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}}
		slice.Spec = resourceapi.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}
		other := slice.DeepCopy()
		other.Name, other.Spec.Driver, other.Spec.Devices = "other-"+node, "nic.example.com", []resourceapi.Device{{Name: "nic-0"}}
		for n := range 3 {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("gpu-", n)})
			if n >= pods {
				continue
			}
			name := fmt.Sprintf("%s-%d", node, n)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
			pod.Spec.NodeName, pod.Spec.ResourceClaims = node, []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
			claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
			claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: types.UID(name)}}
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: "gpu.example.com", Pool: node, Device: fmt.Sprint("gpu-", n)}}}}
			i.Index.SetPod(pod)
			i.Index.SetClaim(claim)
		}
		published = append(published, slice, other)
	}
	i.view = fixedView{devices: tracker.Merge(published...)}
	for name, tt := range map[string]struct {
		spec v1alpha1.DeviceRollSpec
		want string
	}{
		"one":         {v1alpha1.DeviceRollSpec{Driver: "gpu.example.com"}, "b"},
		"two":         {v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", AtATime: ptr.To[int32](2)}, "b d"},
		"a canary":    {v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", Canary: 1}, "b"},
		"named":       {v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", AtATime: ptr.To[int32](2), Nodes: &v1alpha1.RollNodes{Names: []string{"a", "c", "none"}}}, "a c"},
		"per label":   {v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", PerLabel: "zone"}, "a b c d"},
		"none of it":  {v1alpha1.DeviceRollSpec{Driver: "absent.example.com"}, ""},
		"more of all": {v1alpha1.DeviceRollSpec{Driver: "gpu.example.com", AtATime: ptr.To[int32](32)}, "a b c d"},
	} {
		devices, err := i.atATime(&v1alpha1.DeviceRoll{Spec: tt.spec})
		nodes := map[string]bool{}
		for _, id := range devices {
			nodes[id.Pool] = true
			if id.Driver != "gpu.example.com" {
				t.Errorf("%s: %v", name, id)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(nodes)), " "); err != nil || got != tt.want || len(devices) != 3*len(nodes) {
			t.Errorf("%s: %d devices of nodes %q, want %q; %v", name, len(devices), got, tt.want, err)
		}
	}
	if _, err := (&Estimator{}).atATime(&v1alpha1.DeviceRoll{}); err == nil {
		t.Error("without slices a roll has an impact")
	}
}
