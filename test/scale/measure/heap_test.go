package measure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
	"github.com/dra-steward/dra-steward/test/scale"
)

// heapVariable has the number of nodes for TestHeap; the default is 500.
const heapVariable = "DRA_STEWARD_SCALE_HEAP"

// maxPerNode bounds what the webhook keeps for a node, with its devices, claims and pods.
const maxPerNode = 64 << 10

// TestHeap measures what the webhook keeps of a cluster: the slices in a tracker, and claims and
// pods, trimmed as its informers trim them, in an index. Objects are decoded as from an API server.
func TestHeap(t *testing.T) {
	nodes := 500
	if text := os.Getenv(heapVariable); text != "" {
		var err error
		nodes, err = strconv.Atoi(text)
		must(t, err)
	}
	w := scale.World{Nodes: nodes, Seed: 1}
	before := heap()
	snapshot := tracker.Merge(slicesOf(t, w)...)
	slices := heap()
	index := indexOf(t, w)
	all := heap()
	t.Logf("%d nodes: slices %.1f MiB, claims and pods %.1f MiB, %.1f KiB a node", nodes,
		float64(slices-before)/(1<<20), float64(all-slices)/(1<<20), float64(all-before)/float64(nodes)/(1<<10))
	if perNode := (all - before) / int64(nodes); perNode > maxPerNode {
		t.Errorf("%d bytes a node, want at most %d", perNode, maxPerNode)
	}
	runtime.KeepAlive(snapshot)
	runtime.KeepAlive(index)
}

// heap is what is reachable.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func slicesOf(t *testing.T, w scale.World) (all []any) {
	for node := range w.Nodes {
		for _, made := range []*resourceapi.ResourceSlice{w.GPUs(node), w.NICs(node)} {
			data, err := made.Marshal()
			must(t, err)
			slice := &resourceapi.ResourceSlice{}
			must(t, slice.Unmarshal(data))
			all = append(all, slice)
		}
	}
	return all
}

func indexOf(t *testing.T, w scale.World) *usage.Index {
	index := &usage.Index{}
	for i := range w.Claims() {
		madePod, madeClaim := w.Workload(i, 0)
		madePod.UID = types.UID(fmt.Sprintf("%036d", i))
		scale.Bind(madeClaim, madePod)
		pod, claim := &corev1.Pod{}, &resourceapi.ResourceClaim{}
		data, err := madePod.Marshal()
		must(t, err)
		must(t, pod.Unmarshal(data))
		data, err = madeClaim.Marshal()
		must(t, err)
		must(t, claim.Unmarshal(data))
		trimmedPod, err := usage.Trim(pod)
		must(t, err)
		trimmedClaim, err := usage.Trim(claim)
		must(t, err)
		index.SetClaim(trimmedClaim.(*resourceapi.ResourceClaim))
		index.SetPod(trimmedPod.(*corev1.Pod))
	}
	return index
}
