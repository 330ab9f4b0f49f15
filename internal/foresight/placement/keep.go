package placement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dra-steward/dra-steward/internal/cost/quantity"
	"github.com/dra-steward/dra-steward/internal/memory/compact"
	"github.com/dra-steward/dra-steward/pkg/usage"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Keep is a transform for informers: it keeps the fields of objects that a Cluster reads, and
// that usage.Trim keeps.
func Keep(object any) (any, error) {
	quantity.Cap(object)
	switch object := object.(type) {
	case *corev1.Pod:
		return keepPod(object), nil
	case *corev1.Node:
		kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion, Labels: object.Labels}}
		kept.Spec.Taints, kept.Spec.Unschedulable = object.Spec.Taints, object.Spec.Unschedulable
		kept.Status.Allocatable = object.Status.Allocatable
		return kept, nil
	case *resourceapi.ResourceClaim:
		return keepClaim(object), nil
	case *resourceapi.ResourceClaimTemplate:
		kept := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion}}
		kept.Spec.Spec.Devices = keepRequests(&object.Spec.Spec.Devices)
		return kept, nil
	case *policyv1.PodDisruptionBudget:
		return usage.Trim(object)
	case cache.DeletedFinalStateUnknown:
		return object, nil
	}
	return nil, fmt.Errorf("unexpected %T: must be a Pod, Node, ResourceClaim, ResourceClaimTemplate or PodDisruptionBudget", object)
}

// keepClaim leaves out what a tenant can fill, and nothing here reads: labels, other annotations, opaque parameters.
func keepClaim(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	m := claim.ObjectMeta
	kept := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, GenerateName: m.GenerateName, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		Annotations: keepAnnotations(m.Annotations), OwnerReferences: compact.Owner(&m), Finalizers: keepFinalizers(m.Finalizers)}}
	kept.Spec.Devices = keepRequests(&claim.Spec.Devices)
	kept.Status.ReservedFor = claim.Status.ReservedFor
	if a := claim.Status.Allocation; a != nil {
		allocation := *a
		allocation.Devices.Config = nil
		kept.Status.Allocation = &allocation
	}
	return kept
}

// keepAnnotations keeps those that tell what a claim was made for.
func keepAnnotations(all map[string]string) (kept map[string]string) {
	for _, name := range []string{resourceapi.ExtendedResourceClaimAnnotation, resourceapi.PodResourceClaimAnnotation} {
		if value, has := all[name]; has && len(value) <= validation.DNS1123LabelMaxLength {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = value
		}
	}
	return kept
}

// keepFinalizers keeps that of kube-scheduler, and one more if there are others.
func keepFinalizers(all []string) (kept []string) {
	if slices.Contains(all, resourceapi.Finalizer) {
		kept = []string{resourceapi.Finalizer}
	}
	if at := slices.IndexFunc(all, func(name string) bool { return name != resourceapi.Finalizer }); at >= 0 {
		kept = append(kept, all[at])
	}
	return kept
}

// maxKept bounds the bytes, as protobuf, of the requests of a claim, and of a pod.
const maxKept = 64 << 10

// maxResources bounds the resources that are kept of a large pod; of one with more, cpu and memory are.
const maxResources = 64

// maxPorts bounds the ports of the host that are kept of a large pod.
const maxPorts = 256

// tooLarge marks a claim or pod of which not all is kept: no request or gate can have the name.
const tooLarge = "(larger than is read)"

// keepRequests keeps what decides about devices. Beyond the bound it keeps the classes only, and no place is looked for.
func keepRequests(asked *resourceapi.DeviceClaim) resourceapi.DeviceClaim {
	kept := resourceapi.DeviceClaim{Requests: asked.Requests, Constraints: asked.Constraints}
	if kept.Size() <= maxKept {
		return kept
	}
	kept = resourceapi.DeviceClaim{}
	for _, r := range asked.Requests {
		one := resourceapi.DeviceRequest{Name: r.Name}
		if r.Exactly != nil {
			one.Exactly = &resourceapi.ExactDeviceRequest{DeviceClassName: r.Exactly.DeviceClassName}
		}
		for _, sub := range r.FirstAvailable {
			one.FirstAvailable = append(one.FirstAvailable, resourceapi.DeviceSubRequest{Name: sub.Name, DeviceClassName: sub.DeviceClassName})
		}
		kept.Requests = append(kept.Requests, one)
	}
	kept.Requests = append(kept.Requests, resourceapi.DeviceRequest{Name: tooLarge})
	return kept
}

// cut is the reason of a pod if not all of it is kept, or of a claim.
func cut(pod *corev1.Pod, claims []*resourceapi.ResourceClaim) Reason {
	if slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == tooLarge }) {
		return Reason{Kind: TooLarge, Message: "the pod is larger than is read"}
	}
	for _, claim := range claims {
		if n := len(claim.Spec.Devices.Requests); n > 0 && claim.Spec.Devices.Requests[n-1].Name == tooLarge {
			return Reason{Kind: TooLarge, Message: fmt.Sprintf("claim %s is larger than is read", claim.Name)}
		}
	}
	return Reason{}
}

func keepPod(pod *corev1.Pod) *corev1.Pod {
	m := pod.ObjectMeta
	kept := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Labels: compact.Labels(m.Labels), OwnerReferences: compact.Owner(&m), DeletionTimestamp: m.DeletionTimestamp}}
	s := &pod.Spec
	kept.Spec = corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, Priority: s.Priority,
		PreemptionPolicy: s.PreemptionPolicy, SchedulerName: s.SchedulerName, Volumes: KeepVolumes(s.Volumes),
		SchedulingGates: s.SchedulingGates, SchedulingGroup: s.SchedulingGroup, ResourceClaims: compact.Claims(pod), Overhead: s.Overhead,
		Resources: s.Resources, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, TopologySpreadConstraints: s.TopologySpreadConstraints,
		InitContainers: keepContainers(s.InitContainers), Containers: keepContainers(s.Containers),
	}
	kept.Status = corev1.PodStatus{Phase: pod.Status.Phase, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus}
	if kept.Size() > maxKept || len(kept.Spec.ResourceClaims) < len(s.ResourceClaims) {
		kept.Spec = keepLarge(&kept.Spec)
	}
	return kept
}

// keepLarge keeps the claims of a large pod, and what it takes from its node. With the gate, no place is looked for.
func keepLarge(s *corev1.PodSpec) corev1.PodSpec {
	requests := resourcehelper.PodRequests(&corev1.Pod{Spec: *s}, resourcehelper.PodResourcesOptions{})
	if len(requests) > maxResources {
		maps.DeleteFunc(requests, func(name corev1.ResourceName, _ resource.Quantity) bool {
			return name != corev1.ResourceCPU && name != corev1.ResourceMemory
		})
	}
	return corev1.PodSpec{
		NodeName: s.NodeName, Priority: s.Priority, SchedulingGroup: s.SchedulingGroup, SchedulerName: s.SchedulerName, ResourceClaims: s.ResourceClaims,
		TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, SchedulingGates: []corev1.PodSchedulingGate{{Name: tooLarge}},
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}, Ports: keepPorts(s)}},
	}
}

// keepPorts keeps the ports of the host that a large pod uses, at most maxPorts of them.
func keepPorts(s *corev1.PodSpec) (kept []corev1.ContainerPort) {
	for _, p := range portsOf(s) {
		if len(kept) == maxPorts {
			return kept
		}
		kept = append(kept, corev1.ContainerPort{HostPort: p.number, Protocol: p.protocol, HostIP: p.ip})
	}
	return kept
}

// KeepVolumes keeps the volumes that decide where a pod lands.
func KeepVolumes(all []corev1.Volume) (kept []corev1.Volume) {
	for _, v := range all {
		switch {
		case v.PersistentVolumeClaim != nil || restricted(&v):
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim,
				GCEPersistentDisk: v.GCEPersistentDisk, AWSElasticBlockStore: v.AWSElasticBlockStore, RBD: v.RBD, ISCSI: v.ISCSI}})
		case v.Ephemeral != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		case v.CSI != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: v.CSI.Driver}}})
		}
	}
	return kept
}

// keepContainers keeps what containers request, and their ports of the host.
func keepContainers(containers []corev1.Container) (kept []corev1.Container) {
	for _, c := range containers {
		one := corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				one.Ports = append(one.Ports, port)
			}
		}
		kept = append(kept, one)
	}
	return kept
}

// Stored returns the objects of a kind that an informer has.
func Stored[T any](store cache.Store) []T {
	list := store.List()
	all := make([]T, 0, len(list))
	for _, object := range list {
		if typed, is := object.(T); is {
			all = append(all, typed)
		}
	}
	return all
}
