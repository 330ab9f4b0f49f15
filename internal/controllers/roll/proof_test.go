package roll

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
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
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "proofs", Name: DrainName("roll", "node-0")}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	m.nodes["node-0"].Proof = proofState(m.roll, pod, nil)
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
