//go:build unix

package scale_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/internal/foresight/placement"
	"github.com/dra-steward/dra-steward/test/scale"
)

// placed is a world as whatif reads it.
func placed(w scale.Cluster) placement.Cluster {
	c := clusterOf(w)
	p := placement.Cluster{View: c.View, Nodes: c.Nodes}
	for i := range w.Namespaces() {
		p.Templates = append(p.Templates, w.Template(i))
	}
	for i := range w.Claims() {
		pod, claim := w.Workload(i, 0)
		pod.UID = types.UID(fmt.Sprint("pod-", i))
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: pod.Labels["example.com/job"], Controller: new(true)}}
		scale.Bind(claim, pod)
		p.Pods, p.Claims = append(p.Pods, pod), append(p.Claims, claim)
	}
	return p
}

// TestWhatif: at 5,000 nodes, to predict rules that hit about 100 pods takes less than 4
// seconds, and less than 1 GiB with all that was read.
func TestWhatif(t *testing.T) {
	for _, nodes := range sizes() {
		debug.FreeOSMemory()
		world := placed(scale.Cluster{Nodes: nodes, Seed: 1})
		for name, taint := range map[string]int{"of nodes": 14, "of a driver": 0} {
			start := processorTime()
			var rules []any
			for i := range taint {
				rules = append(rules, ruleOf(scale.NodeName(i)))
			}
			if taint == 0 {
				rules = append(rules, ruleOf(""))
				if nodes > 500 {
					continue // every pod of the cluster
				}
			}
			answer, err := world.Predict(t.Context(), placement.Change{After: with(world, rules)})
			if err != nil {
				t.Fatal(err)
			}
			took := processorTime() - start
			memory := heap()
			t.Logf("%d nodes, %s: %d pods leave, %d to %d land: %v, %d MiB", nodes, name, len(answer.Moves), answer.Least, answer.Most, took.Round(time.Millisecond), memory>>20)
			if took > 4*time.Second || memory > 1<<30 {
				t.Errorf("want less than 4s and 1 GiB")
			}
			if taint > 0 && (len(answer.Moves) < 90 || answer.Least != len(answer.Moves)) {
				t.Errorf("%d pods leave, of which %d land", len(answer.Moves), answer.Least)
			}
		}
		runtime.KeepAlive(world)
	}
}

func with(world placement.Cluster, rules []any) placement.Cluster {
	world.View = placement.With(world.View, rules...)
	return world
}

func ruleOf(pool string) *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "whatif-" + pool}}
	rule.Spec = resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(scale.GPUDriver)},
		Taint: resourceapi.DeviceTaint{Key: "example.com/broken", Effect: resourceapi.DeviceTaintEffectNoExecute}}
	if pool != "" {
		rule.Spec.DeviceSelector.Pool = &pool
	}
	return rule
}

// heap is what the process has of memory.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapSys - stats.HeapReleased
}
