package nodeagents

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/nodeagent"
)

// TestNetworkPools: an agent that reads network pools knows what their drivers taint, in the
// newest generation only, and nothing of the slices of other nodes.
func TestNetworkPools(t *testing.T) {
	client, err := kubernetes.NewForConfig(loud(cluster.Config()))
	if err != nil {
		t.Fatal(err)
	}
	without, with := networkWorld(t, false), networkWorld(t, true)
	slices := client.ResourceV1().ResourceSlices()
	publish := func(name string, generation int64, taint string, node *string) *resourceapi.ResourceSlice {
		spec := resourceapi.ResourceSliceSpec{Driver: driver, NodeName: node, Pool: resourceapi.ResourcePool{Name: "fabric", Generation: generation, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "dev-1"}, {Name: "dev-0", Taints: []resourceapi.DeviceTaint{{Key: taint, Effect: resourceapi.DeviceTaintEffectNoSchedule}}}}}
		if node == nil {
			spec.AllNodes = ptr.To(true)
		} else {
			spec.Pool.Name = *node
		}
		slice, err := slices.Create(t.Context(), &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = slices.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
		return slice
	}
	publish("elsewhere", 1, "nic.example.com/elsewhere", ptr.To("elsewhere"))
	publish("fabric-1", 1, "nic.example.com/old", nil)
	expectTaints(t, with, "fabric", "nic.example.com/old")
	newest := publish("fabric-2", 2, "nic.example.com/hot", nil)
	expectTaints(t, with, "fabric", "nic.example.com/hot")

	defer createRule(t, "network", "fabric")()
	expectTaints(t, without, "fabric", "example.com/network")
	expectTaints(t, with, "fabric", "nic.example.com/hot example.com/network")
	expectTaints(t, with, "elsewhere", "")

	newest.Spec.Devices[1].Taints = nil
	if _, err := slices.Update(t.Context(), newest, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectTaints(t, with, "fabric", "example.com/network")
}

// networkWorld runs the view of an agent, with or without network pools, until it is ready.
func networkWorld(t *testing.T, pools bool) *nodeagent.NodeView {
	t.Helper()
	world, err := nodeagent.NewNodeView(cluster.Config(), "network-node", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	if pools {
		if err := world.ReadNetworkPools(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = world.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return world.Ready() == nil, nil })
	if err != nil {
		t.Fatal(fmt.Errorf("%w: %w", err, world.Ready()))
	}
	return world
}

// expectTaints waits until dev-0 of a pool has taints with these keys.
func expectTaints(t *testing.T, world *nodeagent.NodeView, pool, want string) {
	t.Helper()
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var keys []string
		for _, taint := range world.Taints(driver, pool, "dev-0") {
			keys = append(keys, taint.Key)
		}
		got = strings.Join(keys, " ")
		return got == want, nil
	})
	if err != nil {
		t.Errorf("pool %s: taints %q, want %q", pool, got, want)
	}
}
