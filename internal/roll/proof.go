package roll

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// ProofOf are the pod of a proof and its claim: one device of the driver, in spite of the cordon, on
// one node.
func ProofOf(r *v1alpha1.DeviceRoll, node string) (*corev1.Pod, *resourceapi.ResourceClaim) {
	proof := r.Spec.Proof
	meta := metav1.ObjectMeta{Namespace: proof.Namespace, Name: DrainName(r.Name, node), Labels: map[string]string{v1alpha1.RollLabel: r.Name}, OwnerReferences: OwnedBy(r)}
	claim := &resourceapi.ResourceClaim{ObjectMeta: meta}
	request := &resourceapi.ExactDeviceRequest{
		DeviceClassName: proof.DeviceClassName,
		Tolerations: []resourceapi.DeviceToleration{{
			Key: v1alpha1.DrainTaintKey, Operator: resourceapi.DeviceTolerationOpEqual, Value: meta.Name, Effect: resourceapi.DeviceTaintEffectNoSchedule,
		}},
	}
	if r.Spec.Driver != "" {
		request.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", r.Spec.Driver)}}}
	}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "device", Exactly: request}}
	pod := &corev1.Pod{ObjectMeta: meta}
	pod.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}},
		}}},
		Tolerations:    []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim.Name}},
		Containers: []corev1.Container{{
			Name: "proof", Image: proof.Image, Command: proof.Command,
			Resources:       corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "device"}}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}},
	}
	return pod, claim
}

// OwnedBy lets the garbage collector delete an object with its roll.
func OwnedBy(r *v1alpha1.DeviceRoll) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.DeviceRollKind, Name: r.Name, UID: r.UID}}
}

// OwnedIs reports whether an object is one of a roll, and not of an earlier one of its name.
func OwnedIs(object metav1.Object, r *v1alpha1.DeviceRoll) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == r.UID && o.Kind == v1alpha1.DeviceRollKind })
}

// ProofState is the state of the proof of a roll.
func ProofState(r *v1alpha1.DeviceRoll, pod *corev1.Pod, claim *resourceapi.ResourceClaim) (p Proof) {
	if pod != nil && !OwnedIs(pod, r) {
		return Proof{Foreign: "Pod " + pod.Namespace + "/" + pod.Name + " exists, and is not one of the roll: delete it"}
	}
	if claim != nil && !OwnedIs(claim, r) {
		return Proof{Foreign: "ResourceClaim " + claim.Namespace + "/" + claim.Name + " exists, and is not one of the roll: delete it"}
	}
	p.Exists = pod != nil || claim != nil
	if pod == nil {
		p.Half = claim != nil && claim.DeletionTimestamp == nil
		return p
	}
	p.UID, p.Phase, p.Message = pod.UID, pod.Status.Phase, whyNotReady(pod)
	return p
}
