package usage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// TestPrepared: what a driver has to unprepare on a node, and what it has not.
func TestPrepared(t *testing.T) {
	var index Index
	set := func(p *corev1.Pod, c *resourceapi.ResourceClaim) {
		index.SetPod(p)
		index.SetClaim(c)
	}
	on := func(p *corev1.Pod, node string, phase corev1.PodPhase) *corev1.Pod {
		p.Spec.NodeName, p.Status.Phase = node, phase
		return p
	}
	runs, twice := on(pod("runs", "a"), "n1", corev1.PodRunning), on(pod("twice", "b", "b"), "n1", corev1.PodPending)
	ended, elsewhere := on(pod("ended", "c"), "n1", corev1.PodFailed), on(pod("elsewhere", "d"), "n2", corev1.PodRunning)
	other, skips := on(pod("other", "e"), "n1", corev1.PodRunning), on(pod("skips", "f"), "n1", corev1.PodRunning)
	set(runs, reserve(claim("a", "dev0", "dev1"), runs))
	set(twice, reserve(claim("b", "dev2"), twice))
	set(ended, reserve(claim("c", "dev3"), ended))
	set(elsewhere, reserve(claim("d", "dev4"), elsewhere))
	set(on(pod("waits", "a"), "n1", corev1.PodPending), claim("waits"))
	ofOther := reserve(claim("e", "dev5"), other)
	ofOther.Status.Allocation.Devices.Results[0].Driver = "another"
	set(other, ofOther)
	ofSkips := reserve(claim("f", "dev6"), skips)
	ofSkips.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	set(skips, ofSkips)
	for of, want := range map[[2]string][]string{
		{"n1", "d"}: {"a runs", "b twice"}, {"n2", "d"}: {"d elsewhere"}, {"n1", "another"}: {"e other"}, {"n3", "d"}: nil,
	} {
		var got []string
		for _, p := range index.Prepared(of[1], of[0])[of[0]] {
			got = append(got, p.Claim.Name+" "+p.Pod.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %s", of, cmp.Diff(want, got))
		}
		if all := index.Prepared(of[1]); !slices.Equal(all[of[0]], index.Prepared(of[1], of[0])[of[0]]) {
			t.Errorf("%v: of all nodes %v", of, all)
		}
	}
}

// BenchmarkPrepared is the cost of a deletion of a driver's pod: 5,000 nodes, 8 pods each.
func BenchmarkPrepared(b *testing.B) {
	var index Index
	for node := range 5000 {
		for i := range 8 {
			name := fmt.Sprintf("%d-%d", node, i)
			p := pod(name, name)
			p.Spec.NodeName = fmt.Sprint("n", node)
			index.SetPod(p)
			index.SetClaim(reserve(claim(name, name), p))
		}
	}
	for b.Loop() {
		if got := index.Prepared("d", "n17")["n17"]; len(got) != 8 {
			b.Fatal(len(got))
		}
	}
}
