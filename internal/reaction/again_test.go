package reaction_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/cluster/health"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/pkg/patch"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// TestAwayIsNotHealthy: a device that no slice has keeps its cordon, though its cause was gone before.
func TestAwayIsNotHealthy(t *testing.T) {
	w, sick := newWorld(t, 2, 8), device("node-0", 3)
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	w.drained(sick)
	w.devices[sick] = false // the driver restarts and publishes without the taint
	w.run(2 * time.Second)
	delete(w.devices, sick) // and crashes: no slice has the device
	w.run(time.Hour)
	if len(w.drains) != 1 {
		t.Errorf("no slice has the device, and its cordon was lifted: %+v", w.of(sick))
	}
}

// TestReadyAgain: a device that its driver calls broken for two seconds, and working after that, is not sick for a minute.
func TestReadyAgain(t *testing.T) {
	view := tracker.Merge(pool("node-0", 4))
	r := &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: "health"}, Spec: v1alpha1.DeviceReactionSpec{
		Mode: v1alpha1.ReactionAct, When: v1alpha1.ReactionCause{DeviceHealth: &v1alpha1.CauseDeviceHealth{}, For: &metav1.Duration{Duration: time.Minute}}}}
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	w := newWorld(t, 2, 8)
	for i := range 120 {
		now = now.Add(time.Second)
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "a"}}
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p"}}
		status := metav1.ConditionTrue
		if i < 2 {
			status = metav1.ConditionFalse
		}
		claim.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "node-0", Device: "gpu-1", Conditions: []metav1.Condition{{Type: "Ready", Status: status}}}}
		in := w.input()
		in.Reaction, in.Now = r, now
		in.Causes = reaction.Find(r, reaction.Sources{View: view, Health: func() *health.Records {
			records := &health.Records{}
			records.AddClaim(claim)
			return records
		}}, &patch.Compiler{})
		d := reaction.Decide(in)
		if len(d.Create) > 0 {
			t.Fatalf("after %d s, %d s of which Ready=True: drains %s", i+1, i-1, d.Create[0].Spec.Devices[0])
		}
		r = r.DeepCopy()
		r.Status = d.Status
	}
}

// TestJobOfEarlierProof: the Job of a spec.prove that was taken out does not pass the next one, though the controller was killed before it deleted the Job.
func TestJobOfEarlierProof(t *testing.T) {
	w, sick := newProvingWorld(t), device("node-0", 3)
	w.drained(sick)
	first := w.proof(sick).Job
	w.ends(first, batchv1.JobComplete, "of the old image")
	w.run(3 * time.Second)
	w.expectProof(sick, v1alpha1.ProofPassed, "old image")
	prove := w.reaction.Spec.Prove
	w.reaction = w.reaction.DeepCopy()
	w.reaction.Spec.Prove = nil
	w.run(3 * time.Second)
	w.reaction = w.reaction.DeepCopy()
	w.reaction.Spec.Prove = prove.DeepCopy()
	w.reaction.Spec.Prove.Template.Raw = []byte(`{"spec": {"containers": [{"name": "check", "image": "example.com/check:2", "resources": {"claims": [{"name": "device"}]}}]}}`)
	w.now = w.now.Add(time.Second)
	w.step(1) // the status, and no more
	w.run(3 * time.Second)
	if p := w.proof(sick); p.State == v1alpha1.ProofPassed {
		t.Errorf("%+v; Jobs %v", p, w.proofs)
	}
}

// TestProofOfPartitions: a proof tolerates the cordons of other drains of its reaction, which take the device along as a partition.
func TestProofOfPartitions(t *testing.T) {
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "xid-1", UID: "u", Labels: map[string]string{v1alpha1.ReactionLabel: "xid"}}, Spec: v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{device("node-1", 1)}}}
	own, other := rule("cordon", "xid-1", "gpu-1"), rule("cordon-2", "xid-2", "gpu-1")
	own.Spec.Taint = resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Value: "xid-1", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	other.Spec.Taint = resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Value: "xid-2", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	r := &v1alpha1.DeviceReaction{ObjectMeta: metav1.ObjectMeta{Name: "xid"}, Spec: v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid"}}}}
	r.Status.Devices = []v1alpha1.ReactionDevice{{DeviceName: device("node-1", 0), Drain: "xid-2"}}
	if _, err := reaction.PinOf(r, d, tracker.Merge(serials("a", "b"), own, other)); err != nil {
		t.Error(err)
	}
}
