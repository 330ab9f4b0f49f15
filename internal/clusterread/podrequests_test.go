package clusterread

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

func amounts(cpu, gpu string) corev1.ResourceList {
	all := corev1.ResourceList{}
	if cpu != "" {
		all[corev1.ResourceCPU] = apiresource.MustParse(cpu)
	}
	if gpu != "" {
		all["example.com/gpu"] = apiresource.MustParse(gpu)
	}
	return all
}

// TestDefaulted: a pod of a file requests what the API server makes of it.
func TestDefaulted(t *testing.T) {
	requirements := func(requests, limits corev1.ResourceList) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: requests, Limits: limits}
	}
	for name, tt := range map[string]struct{ have, want corev1.ResourceRequirements }{
		"nothing":     {requirements(nil, nil), requirements(nil, nil)},
		"requests":    {requirements(amounts("1", "1"), nil), requirements(amounts("1", "1"), nil)},
		"limits":      {requirements(nil, amounts("2", "1")), requirements(amounts("2", "1"), amounts("2", "1"))},
		"one of both": {requirements(amounts("1", ""), amounts("2", "1")), requirements(amounts("1", "1"), amounts("2", "1"))},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Resources: tt.have}}, Containers: []corev1.Container{{Resources: tt.have}}}}
		defaulted(pod)
		if got := pod.Spec.Containers[0].Resources; !equality.Semantic.DeepEqual(got, tt.want) || !equality.Semantic.DeepEqual(got, pod.Spec.InitContainers[0].Resources) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestDefaultedPodLevel: the requests of containers come before the limits of their pod.
func TestDefaultedPodLevel(t *testing.T) {
	for name, tt := range map[string]struct {
		containers, requests, limits, want corev1.ResourceList
	}{
		"limits":            {nil, nil, amounts("4", ""), amounts("4", "")},
		"requests":          {amounts("1", ""), amounts("3", ""), amounts("4", ""), amounts("3", "")},
		"of the containers": {amounts("1", "1"), nil, amounts("4", ""), amounts("1", "")},
		"no limits":         {amounts("1", ""), nil, nil, nil},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: tt.containers}}},
			Resources: &corev1.ResourceRequirements{Requests: tt.requests, Limits: tt.limits}}}
		defaulted(pod)
		if got := pod.Spec.Resources.Requests; !equality.Semantic.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestDefaultedPorts: a port of the host's network is one of the host.
func TestDefaultedPorts(t *testing.T) {
	ports := []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 9000}}
	for host, want := range map[bool]int32{true: 80, false: 0} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: host, Containers: []corev1.Container{{Ports: append([]corev1.ContainerPort{}, ports...)}}}}
		defaulted(pod)
		if got := pod.Spec.Containers[0].Ports; got[0].HostPort != want || got[1].HostPort != 9000 {
			t.Errorf("hostNetwork %t: %v", host, got)
		}
	}
}
