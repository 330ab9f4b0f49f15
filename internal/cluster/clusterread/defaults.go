package clusterread

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/dra-steward/dra-steward/internal/manifest"
)

// podOf decodes a pod.
func podOf(document *manifest.Document) (*corev1.Pod, []manifest.Problem) {
	pod := &corev1.Pod{}
	problems := manifest.DecodeInto(document, pod)
	setDefaults(&pod.Spec)
	return pod, problems
}

// setDefaults sets the requests and host ports that the API server sets: a manifest may be without them.
func setDefaults(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			requestLimits(&containers[i].Resources, func(corev1.ResourceName) bool { return true })
			if spec.HostNetwork {
				useHostPorts(containers[i].Ports)
			}
		}
	}
	if spec.Resources == nil {
		return
	}
	ofContainers := resourcehelper.AggregateContainerRequests(&corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{})
	requestLimits(spec.Resources, func(name corev1.ResourceName) bool {
		_, requested := ofContainers[name]
		overcommitted := !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
		return resourcehelper.IsSupportedPodLevelResource(name) && !(overcommitted && requested)
	})
}

// requestLimits requests the limits of resources that are not requested, where applies returns true.
func requestLimits(r *corev1.ResourceRequirements, applies func(corev1.ResourceName) bool) {
	for name, limit := range r.Limits {
		if _, requested := r.Requests[name]; requested || !applies(name) {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = limit
	}
}

func useHostPorts(ports []corev1.ContainerPort) {
	for i := range ports {
		ports[i].HostPort = cmp.Or(ports[i].HostPort, ports[i].ContainerPort)
	}
}
