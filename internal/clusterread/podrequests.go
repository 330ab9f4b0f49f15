package clusterread

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// podOf decodes a pod.
func podOf(document *manifest.Document) (*corev1.Pod, []manifest.Problem) {
	pod := &corev1.Pod{}
	problems := manifest.DecodeInto(document, pod)
	defaulted(pod)
	return pod, problems
}

// defaulted fills in what the API server does in a pod that it stores, as far as that decides on which nodes the pod fits:
// requests where there are limits only, and the ports of the host's network.
func defaulted(pod *corev1.Pod) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			resources.Requests = withLimits(resources.Requests, resources.Limits)
			for j := range containers[i].Ports {
				if port := &containers[i].Ports[j]; pod.Spec.HostNetwork && port.HostPort == 0 {
					port.HostPort = port.ContainerPort
				}
			}
		}
	}
	if of := pod.Spec.Resources; of != nil && len(of.Limits) > 0 {
		// The requests of containers come before the limits of the pod, for what nodes can promise twice.
		containers := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
		maps.DeleteFunc(containers, func(name corev1.ResourceName, _ apiresource.Quantity) bool {
			return name != corev1.ResourceCPU && name != corev1.ResourceMemory
		})
		of.Requests = withLimits(withLimits(of.Requests, containers), of.Limits)
	}
}

// withLimits are requests, and limits where there is none.
func withLimits(requests, limits corev1.ResourceList) corev1.ResourceList {
	if len(limits) == 0 {
		return requests
	}
	all := maps.Clone(limits)
	maps.Copy(all, requests)
	return all
}
