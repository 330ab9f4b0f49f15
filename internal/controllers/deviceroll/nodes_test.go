package deviceroll

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// sliceOf is a slice of the pool of a node.
func sliceOf(name, node string, generation, slices int64, devices ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.NodeName = driver, &node
	s.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: generation, ResourceSliceCount: slices}
	for _, device := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: device})
	}
	return s
}

// TestPublished: the devices of a node are those of the newest generation that is complete; slices that are
// left of an older one do not count, and a pool without a complete generation is not complete.
func TestPublished(t *testing.T) {
	view := tracker.Merge(
		sliceOf("a-old", "a", 1, 1, "gpu-0", "gpu-1"), sliceOf("a-new", "a", 2, 1, "gpu-0"),
		sliceOf("b-1", "b", 7, 2, "gpu-0"), sliceOf("b-2", "b", 7, 2, "gpu-1"),
		sliceOf("c-1", "c", 3, 2, "gpu-0"),
	)
	by := roll.PublishedBy(driver, view)
	for node, want := range map[string]string{
		"a": `devices [gpu.example.com/a/gpu-0], pools [{gpu.example.com a 2 1}], incomplete ""`,
		"b": `devices [gpu.example.com/b/gpu-0 gpu.example.com/b/gpu-1], pools [{gpu.example.com b 7 2}], incomplete ""`,
		"c": `devices [], pools [], incomplete "gpu.example.com/c"`,
	} {
		p := by[node]
		if p == nil {
			t.Fatalf("nothing of node %s", node)
		}
		if got := fmt.Sprintf("devices %v, pools %v, incomplete %q", p.Devices, p.Pools, p.Incomplete); got != want {
			t.Errorf("%s: %s, want %s", node, got, want)
		}
	}
	if other := roll.PublishedBy("other.example.com", view); len(other) != 0 {
		t.Errorf("of another driver: %v", other)
	}
	if all := roll.PublishedBy("", view); len(all) != 3 {
		t.Errorf("of all drivers: %v", all)
	}
}
