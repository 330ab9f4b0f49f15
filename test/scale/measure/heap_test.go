package measure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
	"github.com/dra-steward/dra-steward/test/scale"
)

// heapVariable has the number of nodes for TestHeap; the default is 500.
const heapVariable = "DRA_STEWARD_SCALE_HEAP"

// maxPerNode bounds what the webhook keeps for a node, with its devices, claims and pods.
const maxPerNode = 54 << 10

// maxForesight bounds what guard.foresight keeps in addition.
const maxForesight = 8 << 10

// TestHeap measures what the webhook keeps of a cluster: the slices in a tracker, and claims and
// pods in an index, all trimmed as its informers trim them. Objects are decoded as from an API server.
func TestHeap(t *testing.T) {
	nodes := heapNodes(t)
	w := scale.Cluster{Nodes: nodes, Seed: 1}
	before := heap()
	snapshot := tracker.Merge(slicesOf(t, w)...)
	slices := heap()
	index, _, _ := indexOf(t, w, usage.Trim)
	all := heap()
	t.Logf("%d nodes: slices %.1f MiB, claims and pods %.1f MiB, %.1f KiB a node", nodes,
		float64(slices-before)/(1<<20), float64(all-slices)/(1<<20), float64(all-before)/float64(nodes)/(1<<10))
	if perNode := (all - before) / int64(nodes); perNode > maxPerNode {
		t.Errorf("%d bytes a node, want at most %d", perNode, maxPerNode)
	}
	runtime.KeepAlive(snapshot)
	runtime.KeepAlive(index)
}

// TestForesight measures what guard.foresight costs: memory that stays, and the time and memory
// of one answer about a rule that evicts the pods of thirteen nodes, about a hundred.
func TestForesight(t *testing.T) {
	w := scale.Cluster{Nodes: heapNodes(t), Seed: 1}
	before := heap()
	trimmed, _, _ := indexOf(t, w, usage.Trim)
	small := heap() - before
	runtime.KeepAlive(trimmed)
	trimmed = nil
	before = heap()
	index, pods, claims := indexOf(t, w, placement.Keep)
	var nodes []*corev1.Node
	for i := range w.Nodes {
		kept, err := placement.Keep(w.Node(i))
		must(t, err)
		nodes = append(nodes, kept.(*corev1.Node))
	}
	more := heap() - before - small
	t.Logf("%d nodes: %.1f MiB more, %.1f KiB a node", w.Nodes, float64(more)/(1<<20), float64(more)/float64(w.Nodes)/(1<<10))
	if perNode := more / int64(w.Nodes); perNode > maxForesight {
		t.Errorf("%d bytes a node, want at most %d", perNode, maxForesight)
	}
	view := tracker.Merge(append(slicesOf(t, w), scale.Class(scale.GPUDriver))...)
	world := placement.Cluster{View: view, Pods: pods, Claims: claims, Nodes: nodes}
	for namespace := range w.Namespaces() {
		world.Templates = append(world.Templates, w.Template(namespace))
	}
	var rules []any
	for i := range 13 {
		pool := w.GPUs(i).Spec.Pool.Name
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: pool}}
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Pool: &pool}
		rule.Spec.Taint = resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}
		rules = append(rules, rule)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	allocated, begin := m.TotalAlloc, time.Now()
	after := world
	after.View = placement.With(view, rules...)
	answer, err := world.Predict(t.Context(), placement.Change{After: after})
	must(t, err)
	took := time.Since(begin)
	runtime.ReadMemStats(&m)
	t.Logf("%d nodes: %d pods leave, %d do not land again: %s, %d MiB allocated", w.Nodes, len(answer.Moves), answer.Stranded(), took.Round(time.Millisecond), (m.TotalAlloc-allocated)>>20)
	if len(answer.Moves) == 0 || answer.Stranded() == len(answer.Moves) {
		t.Errorf("%+v", answer.Moves[:min(1, len(answer.Moves))])
	}
	runtime.KeepAlive(index)
}

func heapNodes(t *testing.T) int {
	t.Helper()
	text := os.Getenv(heapVariable)
	if text == "" {
		return 500
	}
	nodes, err := strconv.Atoi(text)
	must(t, err)
	return nodes
}

// heap is what is reachable.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func slicesOf(t *testing.T, w scale.Cluster) (all []any) {
	for node := range w.Nodes {
		for _, made := range []*resourceapi.ResourceSlice{w.GPUs(node), w.NICs(node)} {
			data, err := made.Marshal()
			must(t, err)
			slice := &resourceapi.ResourceSlice{}
			must(t, slice.Unmarshal(data))
			compact.Slice(slice)
			all = append(all, slice)
		}
	}
	return all
}

// indexOf returns the index of what keep leaves of claims and pods, and these.
func indexOf(t *testing.T, w scale.Cluster, keep func(any) (any, error)) (index *usage.Index, pods []*corev1.Pod, claims []*resourceapi.ResourceClaim) {
	index, keep = &usage.Index{}, (&compact.Shared{}).Around(keep)
	for i := range w.Claims() {
		madePod, madeClaim := w.Workload(i, 0)
		madePod.UID = types.UID(fmt.Sprintf("%036d", i))
		madePod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: types.UID(fmt.Sprintf("%036d", i/scale.PodsPerJob)), Controller: new(true)}}
		scale.Bind(madeClaim, madePod)
		pod, claim := &corev1.Pod{}, &resourceapi.ResourceClaim{}
		data, err := madePod.Marshal()
		must(t, err)
		must(t, pod.Unmarshal(data))
		data, err = madeClaim.Marshal()
		must(t, err)
		must(t, claim.Unmarshal(data))
		keptPod, err := keep(pod)
		must(t, err)
		keptClaim, err := keep(claim)
		must(t, err)
		pods, claims = append(pods, keptPod.(*corev1.Pod)), append(claims, keptClaim.(*resourceapi.ResourceClaim))
		index.SetClaim(claims[i])
		index.SetPod(pods[i])
	}
	return index, pods, claims
}
