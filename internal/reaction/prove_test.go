package reaction_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/reaction"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

const template = `{"spec": {"containers": [{"name": "check", "image": "example.com/check:1", "resources": {"claims": [{"name": "device"}]}}], "serviceAccountName": "admin", "nodeName": "elsewhere"}}`

// newProvingWorld has a reaction with a proof.
func newProvingWorld(t *testing.T) *world {
	w := newWorld(t, 2, 8)
	w.jobs, w.claims, w.outputs = map[string]*batchv1.Job{}, map[string]*resourceapi.ResourceClaim{}, map[types.UID]string{}
	w.pin = func(v1alpha1.DeviceName, *v1alpha1.DeviceDrain) (reaction.Pin, error) {
		return reaction.Pin{Expression: "true", Node: "node-0", Tolerations: []resourceapi.DeviceToleration{{Key: "a"}}}, nil
	}
	w.reaction.Spec.Prove = &v1alpha1.ReactionProve{DeviceClassName: "gpu", Template: runtime.RawExtension{Raw: []byte(template)}, Timeout: &metav1.Duration{Duration: time.Minute}}
	w.reaction.Spec.End.Uncordon = v1alpha1.UncordonWhenHealthy
	return w
}

// stepProofs does what a step does about proofs.
func (w *world) stepProofs(d reaction.Decision, calls int) {
	for _, job := range d.DeleteJobs {
		if calls--; calls < 0 {
			return
		}
		delete(w.jobs, job.Name)
		w.collect()
	}
	for _, job := range d.CreateJobs {
		if calls--; calls < 0 {
			return
		}
		if w.jobs[job.Name] != nil {
			continue
		}
		w.uids++
		job.UID = types.UID(fmt.Sprint("job-", w.uids))
		w.jobs[job.Name] = job
		w.proofs = append(w.proofs, job.Name)
	}
	for _, claim := range d.CreateClaims {
		if calls--; calls < 0 {
			return
		}
		if w.claims[claim.Name] == nil {
			w.claims[claim.Name] = claim
		}
	}
}

// collect deletes the Jobs whose drain has gone, and the claims whose Job has.
func (w *world) collect() {
	maps.DeleteFunc(w.jobs, func(_ string, job *batchv1.Job) bool {
		owner := job.OwnerReferences[0]
		return w.drains[owner.Name] == nil || w.drains[owner.Name].UID != owner.UID
	})
	maps.DeleteFunc(w.claims, func(_ string, claim *resourceapi.ResourceClaim) bool {
		job := w.jobs[claim.OwnerReferences[0].Name]
		return job == nil || job.UID != claim.OwnerReferences[0].UID
	})
}

// ends lets a Job end.
func (w *world) ends(name string, with batchv1.JobConditionType, output string) {
	w.t.Helper()
	if w.jobs[name] == nil || w.claims[name] == nil {
		w.t.Fatalf("%s: no Job %q with its claim among %v", w.now.Format("05:04:05"), name, slices.Sorted(maps.Keys(w.jobs)))
	}
	job := w.jobs[name].DeepCopy()
	job.Status.Conditions = []batchv1.JobCondition{{Type: with, Status: corev1.ConditionTrue}}
	w.jobs[name], w.outputs[job.UID] = job, output
}

func (w *world) proof(name v1alpha1.DeviceName) v1alpha1.ReactionProof {
	if p := w.of(name).Proof; p != nil {
		return *p
	}
	return v1alpha1.ReactionProof{}
}

func (w *world) expectProof(name v1alpha1.DeviceName, state v1alpha1.ReactionProofState, text string) {
	w.t.Helper()
	if p := w.proof(name); p.State != state || !strings.Contains(p.Message, text) {
		w.t.Fatalf("%s: the proof of %s is %+v, want %s with %q", w.now.Format("05:04:05"), name, p, state, text)
	}
}

// drained makes a device sick and empty.
func (w *world) drained(name v1alpha1.DeviceName) {
	w.t.Helper()
	w.devices[name] = true
	w.run(15 * time.Second)
	w.finish(w.of(name).Drain)
	w.run(3 * time.Second)
}

// TestProof: a device fails its proof and stays cordoned, and passes the next one after its cause has
// gone. Then its cordon is lifted.
func TestProof(t *testing.T) {
	w, sick := newProvingWorld(t), device("node-0", 3)
	w.drained(sick)
	w.expectProof(sick, v1alpha1.ProofRunning, "runs")
	first := w.proof(sick).Job
	job, claim := w.jobs[first], w.claims[first]
	spec := job.Spec.Template.Spec
	if spec.ServiceAccountName != "prover" || *spec.AutomountServiceAccountToken || spec.NodeName != "" || spec.RestartPolicy != corev1.RestartPolicyNever || len(spec.ResourceClaims) != 1 || *spec.ResourceClaims[0].ResourceClaimName != first {
		t.Errorf("%+v", spec)
	}
	if term := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(term) != 1 || term[0].MatchFields[0].Values[0] != "node-0" {
		t.Errorf("%+v", term)
	}
	if *job.Spec.BackoffLimit != 0 || *job.Spec.Completions != 1 || *job.Spec.ActiveDeadlineSeconds != 90 || job.OwnerReferences[0].UID != w.of(sick).DrainUID {
		t.Errorf("%+v", job)
	}
	if request := claim.Spec.Devices.Requests[0].Exactly; request.DeviceClassName != "gpu" || request.Count != 1 || len(request.Tolerations) != 1 || claim.OwnerReferences[0].UID != job.UID {
		t.Errorf("%+v", claim)
	}
	w.ends(first, batchv1.JobFailed, "container check, exit code 3: bandwidth too low")
	w.run(time.Minute)
	w.expectProof(sick, v1alpha1.ProofFailed, "the Job failed: container check, exit code 3: bandwidth too low")
	if c := meta.FindStatusCondition(w.reaction.Status.Conditions, v1alpha1.ReactionProven); c == nil || c.Reason != "Failed" || !strings.Contains(c.Message, sick.String()+": the Job failed: container check, exit code 3: bandwidth too low") {
		t.Errorf("%+v", c)
	}
	w.devices[sick] = false
	w.run(5 * time.Second)
	w.expectProof(sick, v1alpha1.ProofRunning, "runs")
	if len(w.jobs) != 1 || len(w.proofs) != 2 || len(w.drains) != 1 {
		t.Fatalf("%v, %v", slices.Sorted(maps.Keys(w.jobs)), w.proofs)
	}
	w.run(30 * time.Second)
	w.expect(sick, v1alpha1.ReactionDrained)
	w.ends(w.proof(sick).Job, batchv1.JobComplete, "all good")
	w.run(10 * time.Second)
	w.expect(sick, v1alpha1.ReactionDrained)
	w.expectProof(sick, v1alpha1.ProofPassed, "1 run succeeded: all good")
	w.run(time.Minute)
	w.expect(sick, v1alpha1.ReactionHealthy)
	if len(w.drains)+len(w.jobs)+len(w.claims) != 0 {
		t.Errorf("%v, %v", w.drains, w.jobs)
	}
}

// TestProofIsRepeated: a device that becomes sick again, if only for a moment, after its proof has passed or
// while it runs, stays cordoned until it passes another one that began after that.
func TestProofIsRepeated(t *testing.T) {
	for _, passed := range []bool{true, false} {
		w, sick := newProvingWorld(t), device("node-0", 3)
		w.reaction.Spec.End.After = &metav1.Duration{Duration: 5 * time.Second}
		w.drained(sick)
		first := w.proof(sick).Job
		w.devices[sick] = false
		w.run(2 * time.Second)
		if passed {
			w.ends(first, batchv1.JobComplete, "all good")
			w.run(time.Second)
			w.expectProof(sick, v1alpha1.ProofPassed, "all good")
		}
		w.devices[sick] = true
		w.run(time.Second)
		w.devices[sick] = false
		if !passed {
			w.run(time.Second)
			w.ends(first, batchv1.JobComplete, "all good")
		}
		w.run(time.Minute)
		w.expect(sick, v1alpha1.ReactionDrained)
		w.expectProof(sick, v1alpha1.ProofRunning, "runs")
		if len(w.proofs) != 2 || len(w.drains) != 1 {
			t.Fatalf("passed: %t: proofs %v, %d drains", passed, w.proofs, len(w.drains))
		}
		w.ends(w.proof(sick).Job, batchv1.JobComplete, "all good")
		w.run(10 * time.Second)
		w.expect(sick, v1alpha1.ReactionHealthy)
	}
}

// TestProofs: the other ends of a proof.
func TestProofs(t *testing.T) {
	sick := device("node-0", 3)
	for name, tt := range map[string]func(w *world){
		"is late": func(w *world) {
			w.outputs[w.jobs[w.proof(sick).Job].UID] = "pod a does not run: 0/1 nodes are available"
			w.run(65 * time.Second)
			w.expectProof(sick, v1alpha1.ProofFailed, "did not end within 1m0s: pod a does not run: 0/1 nodes are available")
		},
		"its log is read before its result counts": func(w *world) {
			name := w.proof(sick).Job
			w.ends(name, batchv1.JobComplete, "")
			delete(w.outputs, w.jobs[name].UID)
			w.run(5 * time.Second)
			w.expectProof(sick, v1alpha1.ProofRunning, "")
		},
		"its Job is deleted by hand": func(w *world) {
			clear(w.jobs)
			w.run(2 * time.Second)
			w.expectProof(sick, v1alpha1.ProofFailed, "the Job was deleted before it ended")
			w.run(12 * time.Second)
			w.expectProof(sick, v1alpha1.ProofRunning, "runs")
			if p := w.proof(sick); p.Attempt != 2 {
				w.t.Errorf("%+v", p)
			}
		},
		"a failed Job is deleted by hand: the proof is repeated, later each time": func(w *world) {
			for attempt := range 4 {
				w.ends(w.proof(sick).Job, batchv1.JobFailed, "")
				w.run(2 * time.Second)
				clear(w.jobs)
				clear(w.claims)
				w.run(time.Duration(5<<attempt) * time.Second)
				w.expectProof(sick, v1alpha1.ProofFailed, "")
				w.run(time.Duration(5<<attempt+5) * time.Second)
				w.expectProof(sick, v1alpha1.ProofRunning, "runs")
			}
		},
		"the device vanishes: the Job that runs counts, and no other begins": func(w *world) {
			delete(w.devices, sick)
			w.ends(w.proof(sick).Job, batchv1.JobFailed, "gone")
			w.run(time.Hour)
			w.expectProof(sick, v1alpha1.ProofFailed, "gone")
			w.expect(sick, v1alpha1.ReactionDrained)
		},
		"another device is allocated": func(w *world) {
			name := w.proof(sick).Job
			claim := w.claims[name].DeepCopy()
			claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: sick.Driver, Pool: sick.Pool, Device: "gpu-4"}}}}
			w.claims[name] = claim
			w.run(3 * time.Second)
			w.expectProof(sick, v1alpha1.ProofFailed, "kube-scheduler allocated gpu.example.com/node-0/gpu-4")
			if len(w.jobs) != 0 {
				w.t.Error("its Job runs on")
			}
		},
		"sick again after it passed: it is repeated": func(w *world) {
			w.devices[sick] = false
			w.ends(w.proof(sick).Job, batchv1.JobComplete, "")
			w.run(10 * time.Second)
			w.devices[sick] = true
			w.run(15 * time.Second)
			w.devices[sick] = false
			w.run(50 * time.Second)
			w.expectProof(sick, v1alpha1.ProofRunning, "runs")
			w.expect(sick, v1alpha1.ReactionDrained)
		},
		"acknowledged while it runs": func(w *world) {
			drain := w.drains[w.of(sick).Drain].DeepCopy()
			drain.Annotations[v1alpha1.AcknowledgedAnnotation] = "replaced"
			w.drains[drain.Name] = drain
			w.run(3 * time.Second)
			w.expect(sick, v1alpha1.ReactionAcknowledged)
			if w.of(sick).Proof != nil || len(w.jobs) != 0 {
				w.t.Errorf("%+v, %v", w.of(sick), w.jobs)
			}
		},
		"another Job has the name": func(w *world) {
			job := w.jobs[w.proof(sick).Job].DeepCopy()
			job.OwnerReferences = nil
			w.jobs[job.Name] = job
			w.run(3 * time.Second)
			w.expectProof(sick, v1alpha1.ProofFailed, "exists, and is not one of DeviceDrain")
		},
		"switched off": func(w *world) {
			w.jobs = nil
			w.run(time.Hour)
			w.expectProof(sick, v1alpha1.ProofUnprovable, "controller.reactions.proofs.enabled")
			w.expect(sick, v1alpha1.ReactionDrained)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProvingWorld(t)
			w.drained(sick)
			w.expectProof(sick, v1alpha1.ProofRunning, "runs")
			tt(w)
		})
	}
}

// TestUnprovable: a device that no attribute names is not proven, and keeps its cordon until it is
// acknowledged, or gets one.
func TestUnprovable(t *testing.T) {
	w, sick := newProvingWorld(t), device("node-0", 3)
	pin := w.pin
	w.pin = func(v1alpha1.DeviceName, *v1alpha1.DeviceDrain) (reaction.Pin, error) {
		return reaction.Pin{}, errors.New("no attribute tells the device")
	}
	w.drained(sick)
	w.devices[sick] = false
	w.run(time.Hour)
	w.expectProof(sick, v1alpha1.ProofUnprovable, "no attribute tells the device")
	w.expect(sick, v1alpha1.ReactionDrained)
	if c := meta.FindStatusCondition(w.reaction.Status.Conditions, v1alpha1.ReactionProven); c.Reason != "Unprovable" {
		t.Errorf("%+v", c)
	}
	w.pin = pin
	w.run(3 * time.Second)
	w.expectProof(sick, v1alpha1.ProofRunning, "runs")
}

// TestProofKills kills the controller before each of its calls in turn, and then at random: there is one
// Job for each attempt, the cordon stays until the device has passed, and the end is the same.
func TestProofKills(t *testing.T) {
	sick := device("node-0", 3)
	story := func(kill func(call int) bool) (string, int) {
		w, calls := newProvingWorld(t), 0
		run := func(d time.Duration) {
			for range int(d / time.Second) {
				w.now = w.now.Add(time.Second)
				for { // a controller that is killed starts again
					most := 0
					for most < 8 && !kill(calls+most) {
						most++
					}
					calls += most
					if most == 8 {
						w.step(whole)
						break
					}
					w.step(most)
					calls++
				}
			}
		}
		w.devices[sick] = true
		run(15 * time.Second)
		w.finish(w.of(sick).Drain)
		run(4 * time.Second)
		w.ends(w.proof(sick).Job, batchv1.JobFailed, "too slow")
		run(20 * time.Second)
		w.expectProof(sick, v1alpha1.ProofFailed, "too slow")
		w.devices[sick] = false
		run(4 * time.Second)
		if len(w.drains) != 1 {
			t.Fatal("the cordon is lost")
		}
		w.ends(w.proof(sick).Job, batchv1.JobComplete, "fast")
		run(70 * time.Second)
		w.expect(sick, v1alpha1.ReactionHealthy)
		return fmt.Sprint(w.created, len(w.proofs), len(w.drains), len(w.jobs), len(w.claims)), calls
	}
	want, total := story(func(int) bool { return false })
	if want != "["+sick.String()+"] 2 0 0 0" {
		t.Fatal(want)
	}
	for at := range total {
		killed := false
		got, _ := story(func(call int) bool {
			is := call == at && !killed
			killed = killed || is
			return is
		})
		if got != want {
			t.Fatalf("killed before call %d: %s, want %s", at, got, want)
		}
	}
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		if got, _ := story(func(int) bool { return random.IntN(4) == 0 }); got != want {
			t.Fatalf("seed %d: %s, want %s", seed, got, want)
		}
	}
}

// TestNoJobStorm: a taint that comes and goes a hundred times in ten minutes makes few Jobs.
func TestNoJobStorm(t *testing.T) {
	w, sick := newProvingWorld(t), device("node-0", 3)
	w.drained(sick)
	for i := range 200 {
		w.devices[sick] = i%2 == 0
		w.run(3 * time.Second)
		if p := w.proof(sick); p.State == v1alpha1.ProofRunning && w.claims[p.Job] != nil {
			w.ends(p.Job, []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[i%2], "")
		}
	}
	if len(w.proofs) > 4 || len(w.created) != 1 {
		t.Errorf("%d Jobs, drains %v", len(w.proofs), w.created)
	}
	if !meta.IsStatusConditionTrue(w.reaction.Status.Conditions, v1alpha1.ReactionFlapping) {
		t.Error("the status does not say that it flaps")
	}
}

// TestPin: an attribute that only the device has among those that pods on its node can get.
func TestPin(t *testing.T) {
	d := &v1alpha1.DeviceDrain{ObjectMeta: metav1.ObjectMeta{Name: "xid-1", UID: "u"}, Spec: v1alpha1.DeviceDrainSpec{Devices: []v1alpha1.DeviceName{device("node-1", 1)}}}
	cordon := rule("cordon", "xid-1", "gpu-1")
	cordon.Spec.Taint = resourceapi.DeviceTaint{Key: v1alpha1.DrainTaintKey, Value: "xid-1", Effect: resourceapi.DeviceTaintEffectNoSchedule}
	other := rule("by-hand", "", "gpu-1")
	other.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoSchedule
	equal := pool("node-1", 4, 1)
	for i := range equal.Spec.Devices {
		equal.Spec.Devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: ptr.To("a")}}
	}
	uuids := pool("node-1", 4, 1)
	for i := range uuids.Spec.Devices {
		uuids.Spec.Devices[i].Attributes["example.com/uuid"] = resourceapi.DeviceAttribute{StringValue: ptr.To(fmt.Sprintf("%d\"\\", i))}
	}
	r := &v1alpha1.DeviceReaction{Spec: v1alpha1.DeviceReactionSpec{When: v1alpha1.ReactionCause{Taint: &v1alpha1.CauseTaint{Key: "example.com/xid"}}}}
	for name, tt := range map[string]struct {
		slice *resourceapi.ResourceSlice
		rules []*resourceapi.DeviceTaintRule
		want  string
	}{
		"an index":        {pool("node-1", 4, 1), []*resourceapi.DeviceTaintRule{cordon}, `device.driver == "gpu.example.com" && "index" in device.attributes["gpu.example.com"] && device.attributes["gpu.example.com"]["index"] == 1`},
		"a UUID":          {uuids, []*resourceapi.DeviceTaintRule{cordon}, `device.driver == "gpu.example.com" && "uuid" in device.attributes["example.com"] && device.attributes["example.com"]["uuid"] == "1\"\\"`},
		"no attribute":    {equal, []*resourceapi.DeviceTaintRule{cordon}, "no attribute tells the device"},
		"no cordon":       {pool("node-1", 4, 1), nil, "the device is not cordoned yet"},
		"another's taint": {pool("node-1", 4, 1), []*resourceapi.DeviceTaintRule{cordon, other}, "the taint example.com/broken:NoSchedule of rule by-hand keeps the proof off the device"},
		"not published":   {pool("node-1", 1), nil, "no slice has the device"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []any{pool("node-0", 4), tt.slice}
			for _, r := range tt.rules {
				objects = append(objects, r)
			}
			pin, err := reaction.PinOf(r, d, tracker.Merge(objects...))
			got := pin.Expression
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if err == nil && (pin.Node != "node-1" || len(pin.Tolerations) != 2) {
				t.Errorf("%+v", pin)
			}
		})
	}
}
