package placement

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/internal/kubernetes/extendedresource"
)

// needs are what a pod asks of a node.
type needs struct {
	requests amounts
	// allocated are the claims that have their devices, missing those that need some.
	allocated, missing []*resourceapi.ResourceClaim
	// classes are those of the extended resources that a pod requests. A node that has a
	// resource itself needs no device for it.
	classes map[corev1.ResourceName]*resourceapi.DeviceClass
	pod     *corev1.Pod
	rest    rest
	serial  int
}

// open are the claims to allocate on a node.
func (n *needs) open(on *node) []*resourceapi.ResourceClaim {
	if len(n.classes) == 0 {
		return n.missing
	}
	requests := extendedresource.Requests(n.pod, func(resource corev1.ResourceName) string {
		if class := n.classes[resource]; class != nil && on.allocatable[resource] == 0 {
			return class.Name
		}
		return ""
	})
	if len(requests) == 0 {
		return n.missing
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: made(n.pod, fmt.Sprintf("%s-extended-resources-%d", n.pod.Name, n.serial))}
	claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	for _, r := range requests {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, r.DeviceRequest)
	}
	return append(slices.Clone(n.missing), claim)
}

// needs finds the claims of a pod; a reason is about all nodes.
func (s *Simulation) needs(pod *corev1.Pod) (*needs, Reason) {
	n := &needs{requests: requestsOf(pod), pod: pod, serial: s.made}
	if reason := cut(pod, nil); reason.Kind != "" {
		return n, reason
	}
	var reason Reason
	if n.rest, reason = s.restOf(pod); reason.Kind != "" {
		return n, reason
	}
	for i := range pod.Spec.ResourceClaims {
		claim, reason := s.claimFor(pod, &pod.Spec.ResourceClaims[i])
		switch {
		case reason.Kind != "":
			return n, reason
		case claim == nil || slices.Contains(n.missing, claim) || slices.Contains(n.allocated, claim):
		case claim.Status.Allocation == nil:
			n.missing = append(n.missing, claim)
		case !resourceclaim.CanBeReserved(claim) && !resourceclaim.IsReservedForPod(pod, claim, true):
			return n, Reason{Kind: ClaimInUse, Message: fmt.Sprintf("claim %s has as many pods as a claim can have", claim.Name)}
		default:
			n.allocated = append(n.allocated, claim)
		}
	}
	if reason := cut(pod, n.missing); reason.Kind != "" {
		return n, reason
	}
	for _, claim := range n.missing {
		for _, name := range classesOf(claim) {
			if _, err := s.devices.Classes.Get(name); err != nil {
				return n, Reason{Kind: ClassMissing, Message: fmt.Sprintf("DeviceClass %s does not exist", name)}
			}
		}
	}
	for resource := range n.requests {
		if class := s.classes[resource]; class != nil {
			if n.classes == nil {
				n.classes = map[corev1.ResourceName]*resourceapi.DeviceClass{}
			}
			n.classes[resource] = class
		}
	}
	return n, Reason{}
}

// claimFor returns the claim that an entry of a pod names, or a new one of its template.
func (s *Simulation) claimFor(pod *corev1.Pod, reference *corev1.PodResourceClaim) (*resourceapi.ResourceClaim, Reason) {
	namespace := nameOf(pod).Namespace
	name, own, err := resourceclaim.Name(pod, reference)
	switch {
	case err == nil && name == nil:
		return nil, Reason{}
	case err == nil:
		claim := s.claims[types.NamespacedName{Namespace: namespace, Name: *name}]
		if claim == nil || own && !ownedBy(claim, pod) && resourceclaim.IsForPod(pod, claim, true) != nil {
			return nil, Reason{Kind: ClaimMissing, Message: fmt.Sprintf("claim %s does not exist", *name)}
		}
		if claim.DeletionTimestamp != nil {
			return nil, Reason{Kind: ClaimMissing, Message: fmt.Sprintf("claim %s is being deleted", *name)}
		}
		return claim, Reason{}
	case !errors.Is(err, resourceclaim.ErrClaimNotFound) || reference.ResourceClaimTemplateName == nil:
		return nil, Reason{Kind: ClaimMissing, Message: err.Error()}
	}
	meta := metav1.ObjectMeta{}
	if group := s.groupWith(pod, reference); group != nil {
		claim, of := s.ofGroup(group, reference.Name)
		if claim != nil {
			return claim, Reason{}
		}
		meta = of
	}
	template := s.templates[types.NamespacedName{Namespace: namespace, Name: *reference.ResourceClaimTemplateName}]
	if template == nil {
		return nil, Reason{Kind: TemplateMissing, Message: fmt.Sprintf("ResourceClaimTemplate %s does not exist", *reference.ResourceClaimTemplateName)}
	}
	if meta.Name == "" {
		s.made++
		meta = made(pod, fmt.Sprintf("%s-%s-%d", pod.Name, reference.Name, s.made))
		meta.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: reference.Name}
	}
	return Defaulted(&resourceapi.ResourceClaim{ObjectMeta: meta, Spec: template.Spec.Spec}), Reason{}
}

// groupWith returns the PodGroup of a pod if it has the claim that an entry of the pod is about.
func (s *Simulation) groupWith(pod *corev1.Pod, reference *corev1.PodResourceClaim) *schedulingapi.PodGroup {
	name, _ := groupOf(pod)
	group := s.groups[name]
	if group != nil && slices.ContainsFunc(group.Spec.ResourceClaims, func(of schedulingapi.PodGroupResourceClaim) bool {
		return of.Name == reference.Name && ptr.Equal(of.ResourceClaimTemplateName, reference.ResourceClaimTemplateName)
	}) {
		return group
	}
	return nil
}

// ofGroup returns the claim that was made for a PodGroup, which all its pods share; if there is none, its metadata.
func (s *Simulation) ofGroup(group *schedulingapi.PodGroup, of string) (*resourceapi.ResourceClaim, metav1.ObjectMeta) {
	meta := metav1.ObjectMeta{Namespace: nameOf(group).Namespace, Name: group.Name + "-" + of + "-group",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(group, schedulingapi.SchemeGroupVersion.WithKind("PodGroup"))}}
	for _, status := range group.Status.ResourceClaimStatuses {
		if status.Name == of && status.ResourceClaimName != nil {
			meta.Name = *status.ResourceClaimName
		}
	}
	meta.UID = types.UID(meta.Name)
	claim := s.claims[nameOf(&meta)]
	if claim == nil || !metav1.IsControlledBy(claim, group) {
		return nil, meta
	}
	return claim, meta
}

// made is the metadata of a claim that is made for a pod.
func made(pod *corev1.Pod, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: nameOf(pod).Namespace, Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: uidOf(pod), Controller: ptr.To(true)}}}
}

// ownedBy reports whether a claim was made for a pod.
func ownedBy(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return owner != nil && owner.Kind == "Pod" && owner.UID == uidOf(pod)
}

// claimsOf yields the names of the claims that a pod has.
func claimsOf(pod *corev1.Pod) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		namespace := nameOf(pod).Namespace
		for i := range pod.Spec.ResourceClaims {
			name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
			if err == nil && name != nil && !yield(types.NamespacedName{Namespace: namespace, Name: *name}) {
				return
			}
		}
		if e := pod.Status.ExtendedResourceClaimStatus; e != nil {
			yield(types.NamespacedName{Namespace: namespace, Name: e.ResourceClaimName})
		}
	}
}

// classesOf are the classes that a claim requests, each once.
func classesOf(claim *resourceapi.ResourceClaim) []string {
	names := map[string]bool{}
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly != nil {
			names[r.Exactly.DeviceClassName] = true
		}
		for _, sub := range r.FirstAvailable {
			names[sub.DeviceClassName] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
