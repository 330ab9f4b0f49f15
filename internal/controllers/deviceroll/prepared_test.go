package deviceroll

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// usageOf has a pod on node-0 with a claim for a device of the driver.
func usageOf(pool, device string) *usage.Index {
	index := &usage.Index{}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "claim", UID: "claim"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: driver, Pool: pool, Device: device}},
	}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "pod", UID: "pod"}}
	pod.Spec.NodeName, pod.Status.Phase = "node-0", corev1.PodRunning
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "claim", ResourceClaimName: ptr.To("claim")}}
	index.SetClaim(claim)
	index.SetPod(pod)
	return index
}

// TestPrepared: a claim that the driver has prepared on a node counts, whatever is published; the drain gets the
// devices that a pool of the node no longer publishes, and no other.
func TestPrepared(t *testing.T) {
	for what, tt := range map[string]struct{ driver, pool, device, want string }{
		"published":             {driver, "node-0", "gpu-0", "claims 1, prepared [team/claim], drained [gpu-0]"},
		"unpublished":           {driver, "node-0", "gpu-3", "claims 1, prepared [team/claim], drained [gpu-0 gpu-3]"},
		"of all drivers":        {"", "node-0", "gpu-3", "claims 1, prepared [team/claim], drained [gpu-0 gpu-3]"},
		"not bound to one node": {driver, "network", "gpu-0", "claims 0, prepared [team/claim], drained [gpu-0]"},
	} {
		t.Run(what, func(t *testing.T) {
			view := tracker.Merge(sliceOf("slice", "node-0", 1, 1, "gpu-0"))
			c := &Controller{options: Options{Usage: usageOf(tt.pool, tt.device)}}
			r := &v1alpha1.DeviceRoll{ObjectMeta: metav1.ObjectMeta{Name: "roll"}, Spec: v1alpha1.DeviceRollSpec{Driver: tt.driver}}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}
			n := c.node(t.Context(), r, node, roll.PublishedBy(tt.driver, view)["node-0"], v1alpha1.RollNode{}, &cluster{view: view})
			var drained []string
			for _, name := range n.Drained() {
				drained = append(drained, name.Device)
			}
			if got := fmt.Sprintf("claims %d, prepared %v, drained %v", len(n.Hit.Claims), n.Prepared, drained); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestPreparedKeepsDriver: no driver ends and no work begins while the driver has to unprepare a claim that the drain
// does not have.
func TestPreparedKeepsDriver(t *testing.T) {
	const text = "1 claim with devices outside the drain must be unprepared: team/network"
	for what, change := range map[string]func(*v1alpha1.DeviceRollSpec){"driver": asIs, "work": ofNodes} {
		for _, state := range []v1alpha1.RollState{v1alpha1.RollDraining, v1alpha1.RollReplacing, v1alpha1.RollWorking} {
			m := newModel(t, 1, change)
			if what == "work" && state == v1alpha1.RollReplacing || what == "driver" && state == v1alpha1.RollWorking {
				continue
			}
			n := m.nodes["node-0"]
			n.works = false
			m.run(100, func() bool { return m.node(0).State == state })
			n.Pods[0].Deleting = false
			n.Prepared = []types.NamespacedName{{Namespace: "team", Name: "network"}}
			for range 10 {
				m.tick()
				m.pass()
			}
			if got := m.node(0); got.State != state || n.deletions != 0 || !strings.Contains(got.Message, text) {
				t.Errorf("%s, %s: %d deletions, %+v", what, state, n.deletions, got)
			}
			n.Prepared, n.works = nil, true
			m.run(200, m.completed)
		}
	}
}
