//go:build unix

package scale_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/internal/foresight/capacity"
	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/test/scale"
)

// clusterOf is a world as commands read it.
func clusterOf(w scale.Cluster) capacity.Cluster {
	var objects []any
	c := capacity.Cluster{}
	for i := range w.Nodes {
		objects = append(objects, w.GPUs(i), w.NICs(i))
		c.Nodes = append(c.Nodes, w.Node(i))
	}
	for i := range scale.Rules {
		objects = append(objects, w.Rule(i))
	}
	for i := range scale.Patches {
		objects = append(objects, w.Patch(i))
	}
	objects = append(objects, scale.Class(scale.GPUDriver), scale.Class(scale.NICDriver))
	for i := range w.Claims() {
		_, claim := w.Workload(i, 0)
		c.Claims = append(c.Claims, claim)
	}
	c.View = tracker.Merge(objects...)
	return c
}

// processorTime is what the process has used: other processes do not count.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// curveVariable, if it is set, adds the sizes between the smallest and the largest cluster.
const curveVariable = "DRA_STEWARD_SCALE_CURVE"

// sizes are the nodes of the clusters that are measured, in ascending order.
func sizes() []int {
	if os.Getenv(curveVariable) == "" {
		return []int{500, 5000}
	}
	return []int{500, 1000, 2000, 3500, 5000}
}

// TestCapacity: at 5,000 nodes a report takes less than a second, and ten times the
// cluster takes about ten times as long, not a hundred times.
func TestCapacity(t *testing.T) {
	took := map[int]time.Duration{} // the best times of all questions
	slowest := time.Duration(0)
	for _, nodes := range sizes() {
		debug.FreeOSMemory()
		c := clusterOf(scale.Cluster{Nodes: nodes, Seed: 1})
		for _, q := range []struct {
			scope capacity.Scope
			by    capacity.By
		}{{by: capacity.ByDriver}, {by: capacity.ByNode}, {capacity.Scope{Class: scale.GPUDriver}, capacity.ByNode}, {by: capacity.ByClass}} {
			best := time.Hour
			for range 3 {
				start := processorTime()
				r, err := c.Report(t.Context(), q.scope, q.by)
				if err != nil {
					t.Fatal(err)
				}
				best = min(best, processorTime()-start)
				if q.scope.Class != "" && r.Total.Held+r.Total.Allocatable+r.Total.Tainted != 8*nodes || r.Total.Held != 8*nodes*9/10 {
					t.Errorf("%d nodes: %+v", nodes, r.Total)
				}
			}
			t.Logf("%d nodes, by %s %s: %v, %d MiB", nodes, q.by, q.scope.Class, best.Round(time.Millisecond), heap()>>20)
			took[nodes] += best
			slowest = max(slowest, best)
		}
		runtime.KeepAlive(c)
	}
	if slowest > time.Second {
		t.Errorf("%v at 5,000 nodes, want less than 1s", slowest)
	}
	if took[5000] > 30*took[500] {
		t.Errorf("%v at 5,000 nodes, %v at 500: grows faster than the cluster", took[5000], took[500])
	}
}

// TestSummary: what the controller counts each minute takes less than a second with a class for each
// driver. With 100 classes, of which half look at attributes, it takes less than its limit.
func TestSummary(t *testing.T) {
	for _, nodes := range sizes() {
		for classes, most := range map[int]time.Duration{2: time.Second, 100: 30 * time.Second} {
			c := clusterOf(scale.Cluster{Nodes: nodes, Seed: 1})
			var more []any
			for i := range classes - 2 {
				class := scale.Class(scale.GPUDriver)
				class.Name = fmt.Sprint("class-", i)
				if i%2 == 0 {
					class.Spec.Selectors = append(class.Spec.Selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{
						Expression: fmt.Sprintf(`device.attributes[%q].architecture != "%d"`, scale.GPUDriver, i)}})
				}
				more = append(more, class)
			}
			c.View = placement.With(c.View, more...)
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			allocated, before, start := m.TotalAlloc, heap(), processorTime()
			summary, err := c.Summarize(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			took := processorTime() - start
			runtime.ReadMemStats(&m)
			t.Logf("%d nodes, %d classes counted, %d omitted: %v, %d MiB allocated, %d MiB more heap", nodes, len(summary.Classes), summary.Omitted,
				took.Round(time.Millisecond), (m.TotalAlloc-allocated)>>20, (int64(heap())-int64(before))>>20)
			if took > most {
				t.Errorf("%d nodes, %d classes: %v, want less than %v", nodes, classes, took, most)
			}
			runtime.KeepAlive(c)
		}
	}
}

// TestCapacityOfPartitions: so does a report of 5,000 nodes whose GPUs have partitions.
func TestCapacityOfPartitions(t *testing.T) {
	var objects []any
	c := capacity.Cluster{Nodes: []*corev1.Node{}}
	w := scale.Cluster{Nodes: 5000, Seed: 1}
	for i := range w.Nodes {
		c.Nodes = append(c.Nodes, w.Node(i))
		objects = append(objects, w.Partitions(i)...)
	}
	c.View = tracker.Merge(objects...)
	claim := &resourceapi.ResourceClaim{}
	claim.Name, claim.Namespace = "half", "team-000"
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "gpu", Driver: scale.GPUDriver, Pool: scale.NodeName(0), Device: "gpu-0-3g-0"}}}}
	c.Claims = append(c.Claims, claim)
	start := processorTime()
	r, err := c.Report(t.Context(), capacity.Scope{}, capacity.ByNode)
	if err != nil {
		t.Fatal(err)
	}
	took := processorTime() - start
	t.Logf("%v for %d partitions", took.Round(time.Millisecond), r.Total.Total)
	if r.Total.Allocatable != 5000*7-4 || r.Total.UpperBound {
		t.Errorf("%d of %d partitions together, want %d", r.Total.Allocatable, r.Total.Total, 5000*7-4)
	}
	if took > 2*time.Second {
		t.Errorf("%v, want less than 2s", took)
	}
}

// TestFit: at 5,000 nodes the pods that fit are counted in seconds.
func TestFit(t *testing.T) {
	w := scale.Cluster{Nodes: 5000, Seed: 1}
	c := clusterOf(w)
	pod, _ := w.Workload(0, 1)
	pod.Spec.NodeName, pod.Name = "", "more"
	q := capacity.Question{Pod: pod, Cluster: placement.Cluster{View: c.View, Claims: c.Claims, Nodes: c.Nodes, Templates: []*resourceapi.ResourceClaimTemplate{w.Template(0)}}}
	q.Pod.Namespace = scale.NamespaceName(0)
	start := processorTime()
	r, err := q.Room(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	took := processorTime() - start
	t.Logf("%v: %d to %d pods fit on %d nodes", took.Round(time.Millisecond), r.Least, r.Most, len(r.Nodes))
	report, err := c.Report(t.Context(), capacity.Scope{Class: scale.GPUDriver}, capacity.ByDriver)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Exact || r.Most != report.Total.Fits[0].Claims {
		t.Errorf("%d pods fit, exact: %t; capacity counts %d", r.Most, r.Exact, report.Total.Fits[0].Claims)
	}
	if took > 20*time.Second {
		t.Errorf("%v, want less than 20s", took)
	}
}
