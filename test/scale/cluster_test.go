package scale_test

import (
	"encoding/json"
	"testing"

	"github.com/dra-steward/dra-steward/test/scale"
)

// TestWorld: the counts are those of clusterloader2's test at 5,000 nodes, no device is held
// twice, and the budgets count the pods.
func TestWorld(t *testing.T) {
	for _, w := range []scale.Cluster{{Nodes: 1}, {Nodes: 7, Seed: 3}, {Nodes: 100, Seed: 1}, {Nodes: 5000, Seed: 1}} {
		held, inNamespace := map[string]bool{}, map[string]int32{}
		for i := range w.Claims() {
			pod, claim := w.Workload(i, 0)
			result := claim.Status.Allocation.Devices.Results[0]
			device := result.Pool + "/" + result.Device
			if held[device] || pod.Spec.NodeName != result.Pool || pod.Namespace != claim.Namespace {
				t.Fatalf("%v: claim %d holds %s, held before: %v; its pod is on %s", w, i, device, held[device], pod.Spec.NodeName)
			}
			held[device] = true
			inNamespace[pod.Namespace]++
		}
		for i := range w.Namespaces() {
			budget := w.Budget(i)
			if budget.Status.ExpectedPods != inNamespace[budget.Namespace] {
				t.Errorf("%v: the budget of %s expects %d pods, want %d", w, budget.Namespace, budget.Status.ExpectedPods, inNamespace[budget.Namespace])
			}
		}
	}
	if w := (scale.Cluster{Nodes: 5000}); w.Claims() != 36_000 || w.Namespaces() != 500 || w.Devices() != 40_000 {
		t.Errorf("%d claims, %d namespaces, %d devices", w.Claims(), w.Namespaces(), w.Devices())
	}
}

// TestDeterministic: a seed makes the same objects each time, another seed others.
func TestDeterministic(t *testing.T) {
	all := func(w scale.Cluster) string {
		var objects []any
		for i := range 20 {
			pod, claim := w.Workload(i, 1)
			objects = append(objects, w.Node(i), w.GPUs(i), w.NICs(i), w.Rule(i), w.Patch(i), w.Template(0), w.Namespace(i), w.Budget(0), pod, claim)
		}
		text, err := json.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	w := scale.Cluster{Nodes: 100, Seed: 1}
	if again := (scale.Cluster{Nodes: 100, Seed: 1}); all(w) != all(again) {
		t.Error("two calls make different objects")
	}
	if all(w) == all(scale.Cluster{Nodes: 100, Seed: 2}) {
		t.Error("two seeds make the same objects")
	}
	if effect := (scale.Cluster{Nodes: 1, NoExecute: true}).Rule(0).Spec.Taint.Effect; effect != "NoExecute" {
		t.Errorf("the first rule has the effect %s", effect)
	}
}

// TestChurned: ten rounds replace each claim once, a job as a whole.
func TestChurned(t *testing.T) {
	w, seen := scale.Cluster{Nodes: 100, Seed: 1}, map[int]int{}
	for round := 1; round <= 10; round++ {
		jobs := map[int]int{}
		for claim := range w.Churned(round) {
			seen[claim]++
			jobs[claim/scale.PodsPerJob]++
		}
		for job, pods := range jobs {
			if pods != scale.PodsPerJob {
				t.Errorf("round %d replaces %d pods of job %d", round, pods, job)
			}
		}
	}
	if len(seen) != w.Claims() {
		t.Errorf("%d claims of %d were replaced", len(seen), w.Claims())
	}
}
