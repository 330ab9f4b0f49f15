package reaction

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/condition"
)

// jobName is the name of an attempt: that of the reaction, a hash of the drain, and a number.
func jobName(reaction string, drain *v1alpha1.DeviceDrain, attempt int32) string {
	sum := sha256.Sum256([]byte(string(drain.UID)))
	return fmt.Sprintf("%s-%s-%d", reaction, strings.ToLower(base32.HexEncoding.EncodeToString(sum[:5])), attempt)
}

func runs(p *v1alpha1.ReactionProve) int32 { return max(ptr.Deref(p.Runs, 1), 1) }

// createJob decides to create the Job of an attempt.
func (w *work) createJob(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain) {
	pin, err := w.Proofs.Pin(d.DeviceName, drain)
	if err != nil {
		d.Proof.Message = condition.Bounded("waits: "+err.Error(), 1024)
		return
	}
	template, err := v1alpha1.ProofTemplate(w.Reaction.Spec.Prove)
	if err != nil {
		w.end(d.Proof, v1alpha1.ProofFailed, "spec.prove.template: "+err.Error())
		return
	}
	d.Proof.Message = "is being created"
	w.CreateJobs = append(w.CreateJobs, w.jobOf(d.Proof, drain, template, pin))
}

// jobOf is the Job of an attempt. Its owner is the drain, so that it goes with the drain. What decides
// about the node, the identity and the devices of its pods is not left to the template.
func (w *work) jobOf(p *v1alpha1.ReactionProof, drain *v1alpha1.DeviceDrain, template *corev1.PodTemplateSpec, pin Pin) *batchv1.Job {
	spec := &template.Spec
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.AutomountServiceAccountToken = w.Proofs.ServiceAccount, "", ptr.To(false)
	spec.RestartPolicy, spec.NodeName = corev1.RestartPolicyNever, ""
	spec.ResourceClaims = []corev1.PodResourceClaim{{Name: v1alpha1.ProofClaim, ResourceClaimName: &p.Job}}
	if pin.Node != "" {
		bindTo(spec, pin.Node)
	}
	owner := metav1.OwnerReference{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.DeviceDrainKind, Name: drain.Name, UID: drain.UID, Controller: ptr.To(true)}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Proofs.Namespace, Name: p.Job, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{v1alpha1.ReactionLabel: w.Reaction.Name}, Annotations: map[string]string{v1alpha1.DeviceAnnotation: drain.Spec.Devices[0].String()}},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To(runs(w.Reaction.Spec.Prove)), BackoffLimit: ptr.To[int32](0),
			ActiveDeadlineSeconds: ptr.To(int64((Timeout(w.Reaction.Spec.Prove) + grace).Seconds())), Template: *template,
		},
	}
}

// bindTo lets a pod run on a node only, whatever else it asks for.
func bindTo(spec *corev1.PodSpec, node string) {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		term.MatchFields = append(term.MatchFields, corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}})
	}
	spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
}

// createClaim decides to create the claim of a Job, which goes with the Job.
func (w *work) createClaim(d *v1alpha1.ReactionDevice, drain *v1alpha1.DeviceDrain, job *batchv1.Job) {
	pin, err := w.Proofs.Pin(d.DeviceName, drain)
	if err != nil {
		d.Proof.Message = condition.Bounded("waits: "+err.Error(), 1024)
		return
	}
	owner := metav1.OwnerReference{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID}
	w.CreateClaims = append(w.CreateClaims, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, Labels: job.Labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: v1alpha1.ProofClaim,
			Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: w.Reaction.Spec.Prove.DeviceClassName, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Selectors:   []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: pin.Expression}}},
				Tolerations: pin.Tolerations,
			},
		}}}},
	})
}
