package deviceroll

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/roll"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// TestLateProof: the proof times out and the node fails; its pod succeeds later. Once the node is repaired and the roll continues, the proof runs again.
func TestLateProof(t *testing.T) {
	m := newModel(t, 1, proved)
	n := m.nodes["node-0"]
	n.proof = corev1.PodRunning
	m.run(2000, m.held(v1alpha1.HeldNodeFailed))
	n.Proof.Phase = corev1.PodSucceeded
	m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
	m.pass()
	if m.node(0).State != v1alpha1.RollProving {
		t.Errorf("%+v", m.node(0))
	}
	n.proof = corev1.PodSucceeded
	m.run(200, m.completed)
}

// TestForeignProof: a pod of another owner, of the name of the proof, passes nothing.
func TestForeignProof(t *testing.T) {
	m := newModel(t, 1, proved)
	m.run(200, func() bool { return m.node(0).State == v1alpha1.RollProving })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "proofs", Name: roll.DrainName("roll", "node-0")}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	m.nodes["node-0"].Proof = roll.ProofState(m.roll, pod, nil)
	m.pass()
	if m.node(0).State != v1alpha1.RollProving {
		t.Errorf("%+v", m.node(0))
	}
}

// TestDrainDeletedInProof: a node whose drain is deleted before its proof has succeeded fails.
func TestDrainDeletedInProof(t *testing.T) {
	for _, state := range []v1alpha1.RollState{v1alpha1.RollPublishing, v1alpha1.RollProving} {
		m := newModel(t, 1, proved)
		m.run(200, func() bool { return m.node(0).State == state })
		clear(m.drains)
		m.nodes["node-0"].proof = corev1.PodRunning
		for range 3 {
			m.pass()
			m.tick()
		}
		if m.node(0).State != v1alpha1.RollFailed {
			t.Errorf("%s: %+v", state, m.node(0))
		}
		m.nodes["node-0"].proof = corev1.PodSucceeded
		m.steer(func(spec *v1alpha1.DeviceRollSpec) { spec.Continue++ })
		m.run(300, m.completed)
	}
}

// proofAPI counts reads of proofs; none exists.
type proofAPI struct {
	API
	reads int
}

func (a *proofAPI) Proof(context.Context, string, string) (*corev1.Pod, *resourceapi.ResourceClaim, error) {
	a.reads++
	return nil, nil, nil
}

// TestReadsOfProofs: the proof of a node is read from when the roll begins with the node until nothing of the roll is left
// there, and not for good.
func TestReadsOfProofs(t *testing.T) {
	for state, change := range map[v1alpha1.RollState]func(*v1alpha1.DeviceRollSpec){
		v1alpha1.RollUndone:  func(s *v1alpha1.DeviceRollSpec) { s.Undo = true },
		v1alpha1.RollSkipped: func(s *v1alpha1.DeviceRollSpec) { s.Skip = []string{"node-0", "node-1"} },
	} {
		t.Run(string(state), func(t *testing.T) {
			m, api := newModel(t, 2, proved), &proofAPI{}
			c := &Controller{options: Options{API: api, Usage: &usage.Index{}}}
			reads := func(i int) int {
				api.reads = 0
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node(i).Name}}
				c.node(t.Context(), m.roll, node, &roll.NodeDevices{}, *m.node(i), &cluster{view: tracker.Merge()})
				return api.reads
			}
			m.nodes["node-0"].proof = corev1.PodRunning
			m.run(200, func() bool { return m.node(0).State == v1alpha1.RollProving && m.nodes["node-0"].Proof.Exists })
			m.roll.Spec.DriverPods = nil
			m.steer(change)
			m.pass()
			if got := m.node(0); got.State != state || reads(0) != 1 || reads(1) != 0 {
				t.Errorf("%d and %d reads while the proof is left: %+v", reads(0), reads(1), got)
			}
			m.run(10, func() bool { return len(m.drains) == 0 })
			m.pass()
			m.clean()
			if got := m.node(0); got.State != state || reads(0) != 0 {
				t.Errorf("%d reads when nothing is left: %+v", reads(0), got)
			}
		})
	}
}
