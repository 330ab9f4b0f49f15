package reaction

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/text/plural"
)

// Proofs are what proofs need to know.
type Proofs struct {
	// Namespace is that of the Jobs, ServiceAccount that of their pods.
	Namespace, ServiceAccount string
	// Jobs and Claims are those of the namespace, by name.
	Jobs   map[string]*batchv1.Job
	Claims map[string]*resourceapi.ResourceClaim
	// Outputs are the ends of the logs of Jobs that have ended or whose time is over, by UID.
	Outputs map[types.UID]string
	// Pin returns how a claim gets a device and no other.
	Pin func(v1alpha1.DeviceName, *v1alpha1.DeviceDrain) (Pin, error)
}

// The times of proofs.
const (
	defaultTimeout = 15 * time.Minute
	// grace is how much longer a Job may run than its proof waits for it, so that the log of a pod can
	// be read before the pod is deleted.
	grace = 30 * time.Second
	// leastPause and mostPause bound the time between two attempts, which doubles each time.
	leastPause = 10 * time.Second
	mostPause  = time.Hour
)

func Timeout(p *v1alpha1.ReactionProve) time.Duration {
	return reconcile.DurationOr(p.Timeout, defaultTimeout)
}

// prove takes the next step of the proof of a drained device. The status is written before a Job
// is created, and the name of the Job follows from it, so that a controller that is killed creates
// no second one.
func (w *work) prove(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain) {
	if w.Reaction.Spec.Prove == nil {
		d.Proof = nil
		return
	}
	if !w.acts() {
		return
	}
	if w.Proofs == nil {
		d.Proof = unprovable(d.Proof, "proofs are switched off: set controller.reactions.proofs.enabled in the values of the chart")
		return
	}
	if d.Proof != nil && d.Proof.State == v1alpha1.ProofRunning {
		w.followProof(d, drain)
	}
	if p := d.Proof; p != nil && (p.State == v1alpha1.ProofRunning || p.State == v1alpha1.ProofPassed) && w.stale(d) {
		w.end(p, v1alpha1.ProofFailed, "the device became sick again since it began; the proof is repeated")
	}
	w.clean(d, drain)
	if !w.proofDue(d) {
		return
	}
	if _, err := w.Proofs.Pin(d.DeviceName, drain); err != nil {
		d.Proof = unprovable(d.Proof, err.Error())
		return
	}
	attempt := int32(1)
	if d.Proof != nil {
		attempt += d.Proof.Attempt
	}
	for owned(w.Proofs.Jobs[jobName(w.Reaction.Name, drain, attempt)], drain) {
		attempt++ // it is of a spec.prove, or of a reaction of the name, that is gone
	}
	d.Proof = &v1alpha1.ReactionProof{State: v1alpha1.ProofRunning, Attempt: attempt, Job: jobName(w.Reaction.Name, drain, attempt), StartTime: reconcile.Stamp(w.Now)}
	w.followProof(d, drain)
}

// unprovable keeps the number of attempts.
func unprovable(p *v1alpha1.ReactionProof, why string) *v1alpha1.ReactionProof {
	result := &v1alpha1.ReactionProof{State: v1alpha1.ProofUnprovable, Message: condition.Bounded(why, 1024)}
	if p != nil {
		result.Attempt, result.Job, result.EndTime = p.Attempt, p.Job, p.EndTime
	}
	return result
}

// proofDue reports whether a proof begins: the first, the next after the device has become sick again
// or, if it failed, healthy, and the one after a failed Job that a user has deleted. A device that
// flaps or that no slice has begins none.
func (w *work) proofDue(d *v1alpha1.ReactionDevice) bool {
	p := d.Proof
	switch {
	case p != nil && p.State == v1alpha1.ProofRunning, w.flaps(d), !w.Published(d.DeviceName):
		return false
	case p == nil || p.Attempt == 0:
		return true
	case p.State == v1alpha1.ProofUnprovable, w.stale(d):
	case p.State == v1alpha1.ProofFailed && w.Proofs.Jobs[p.Job] == nil:
	case p.State == v1alpha1.ProofFailed && d.HealthySince != nil && !d.HealthySince.Before(p.StartTime):
	default:
		return false
	}
	return p.EndTime == nil || w.Lasts(w.Now, p.EndTime, pauseAfter(p.Attempt))
}

// pauseAfter is the time between the end of an attempt and the next one.
func pauseAfter(attempt int32) time.Duration {
	return min(leastPause<<min(max(attempt-1, 0), 10), mostPause)
}

// stale reports whether the device became sick again after its proof began.
func (w *work) stale(d *v1alpha1.ReactionDevice) bool {
	return d.SickSince != nil && d.Proof.StartTime != nil && !d.SickSince.Before(d.Proof.StartTime)
}

// proven reports whether the proof lets the device be used again.
func (w *work) proven(d *v1alpha1.ReactionDevice) bool {
	return w.Reaction.Spec.Prove == nil || d.Proof != nil && d.Proof.State == v1alpha1.ProofPassed
}

// followProof creates what is missing of a Job that runs, and notes its result.
func (w *work) followProof(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain) {
	p, job := d.Proof, w.Proofs.Jobs[d.Proof.Job]
	switch over := w.Lasts(w.Now, p.StartTime, Timeout(w.Reaction.Spec.Prove)); {
	case job != nil && !owned(job, drain):
		w.end(p, v1alpha1.ProofFailed, fmt.Sprintf("Job %s/%s exists, and is not one of DeviceDrain %s: delete it", job.Namespace, job.Name, drain.Name))
	case job == nil && p.JobUID != "":
		w.end(p, v1alpha1.ProofFailed, fmt.Sprintf("the Job was deleted before it ended; the next one begins in %s", pauseAfter(p.Attempt)))
	case job == nil && over:
		w.end(p, v1alpha1.ProofFailed, fmt.Sprintf("no Job was created within %s", Timeout(w.Reaction.Spec.Prove)))
	case job == nil:
		w.createJob(d, drain)
	default:
		p.JobUID = job.UID
		w.followJob(d, drain, job, over)
	}
}

func (w *work) followJob(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain, job *batchv1.Job, over bool) {
	p := d.Proof
	claim := w.Proofs.Claims[job.Name]
	_, read := w.Proofs.Outputs[job.UID]
	switch ended := EndOf(job); {
	case (ended != "" || over) && !read:
		w.WakeAt(w.Now) // more logs are to be read than a step reads
	case ended == batchv1.JobComplete:
		w.end(p, v1alpha1.ProofPassed, w.output(job, plural.Of(int(runs(w.Reaction.Spec.Prove)), "run")+" succeeded"))
	case ended == batchv1.JobFailed:
		w.end(p, v1alpha1.ProofFailed, w.output(job, "the Job failed"))
	case over:
		w.end(p, v1alpha1.ProofFailed, w.output(job, fmt.Sprintf("did not end within %s", Timeout(w.Reaction.Spec.Prove))))
	case claim == nil:
		w.createClaim(d, drain, job)
	default:
		if other := otherDevice(claim, d.DeviceName); other != "" {
			w.end(p, v1alpha1.ProofFailed, "kube-scheduler allocated "+other+": the attribute that names the device is not unique any more")
			return
		}
		p.Message = "Job " + job.Namespace + "/" + job.Name + " runs"
	}
}

// clean deletes the Jobs of earlier attempts, and one that runs on another device.
func (w *work) clean(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain) {
	for _, name := range slices.Sorted(maps.Keys(w.Proofs.Jobs)) {
		job, claim := w.Proofs.Jobs[name], w.Proofs.Claims[name]
		if !owned(job, drain) || job.DeletionTimestamp != nil {
			continue
		}
		astray := EndOf(job) == "" && claim != nil && otherDevice(claim, d.DeviceName) != ""
		if d.Proof == nil || d.Proof.Job != name || astray {
			w.DeleteJobs = append(w.DeleteJobs, job)
		}
	}
}

// end notes a result.
func (w *work) end(p *v1alpha1.ReactionProof, state v1alpha1.ReactionProofState, message string) {
	p.State, p.EndTime, p.Message = state, reconcile.Stamp(w.Now), condition.Bounded(message, 1024)
}

// output is a result with the end of the log.
func (w *work) output(job *batchv1.Job, result string) string {
	if said := w.Proofs.Outputs[job.UID]; said != "" {
		return result + ": " + said
	}
	return result
}

// EndOf is the type of the condition with which a Job has ended, empty while it has not.
func EndOf(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type
		}
	}
	return ""
}

// owned reports whether a Job is one of a drain.
func owned(job *batchv1.Job, drain *v1alpha1.DeviceDrain) bool {
	if job == nil {
		return false
	}
	for _, owner := range job.OwnerReferences {
		if owner.UID == drain.UID && owner.Kind == v1alpha1.DeviceDrainKind {
			return true
		}
	}
	return false
}

// otherDevice names the device that a claim has, unless it is the one it is for.
func otherDevice(claim *resourceapi.ResourceClaim, want v1alpha1.DeviceName) string {
	if claim.Status.Allocation == nil {
		return ""
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if got := (v1alpha1.DeviceName{Driver: r.Driver, Pool: r.Pool, Device: r.Device}); got != want {
			return got.String()
		}
	}
	return ""
}

// provenCondition sums up the proofs.
func (w *work) provenCondition(c conditions) {
	if w.Reaction.Spec.Prove == nil {
		c.drop(v1alpha1.ReactionProven)
		return
	}
	counts, texts := map[v1alpha1.ReactionProofState]int{}, map[v1alpha1.ReactionProofState][]string{}
	for _, name := range w.names() {
		if p := w.known[name].Proof; p != nil {
			counts[p.State]++
			texts[p.State] = append(texts[p.State], name.String()+": "+p.Message)
		}
	}
	for _, state := range []v1alpha1.ReactionProofState{v1alpha1.ProofFailed, v1alpha1.ProofUnprovable, v1alpha1.ProofRunning} {
		if counts[state] > 0 {
			c.set(v1alpha1.ReactionProven, false, string(state), strings.Join(texts[state][:min(len(texts[state]), 4)], "; "))
			return
		}
	}
	switch passed := texts[v1alpha1.ProofPassed]; len(passed) {
	case 0:
		c.set(v1alpha1.ReactionProven, true, "NothingToProve", "")
	default:
		c.set(v1alpha1.ReactionProven, true, string(v1alpha1.ProofPassed), strings.Join(passed[:min(len(passed), 4)], "; "))
	}
}
