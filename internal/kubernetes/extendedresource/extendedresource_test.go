package extendedresource_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/internal/kubernetes/extendedresource"
)

func asking(amounts map[string]string) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for name, amount := range amounts {
		c.Resources.Requests[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

const (
	implicit = "deviceclass.resource.kubernetes.io/gpu"
	explicit = "example.com/nic"
)

func classOf(name corev1.ResourceName) string {
	if name == explicit {
		return "nic"
	}
	return extendedresource.ImplicitClass(name)
}

// TestRequests has what the scheduler of Kubernetes 1.37 makes of the same pods.
func TestRequests(t *testing.T) {
	type list = []corev1.Container
	one, two := asking(map[string]string{implicit: "1"}), asking(map[string]string{implicit: "2"})
	for name, test := range map[string]struct {
		init, containers list
		pod              map[string]string
		want             []string
	}{
		"nothing":  {containers: list{asking(map[string]string{"cpu": "1", "example.com/other": "1"})}},
		"zero":     {containers: list{asking(map[string]string{implicit: "0"})}},
		"fraction": {containers: list{asking(map[string]string{implicit: "500m"})}},
		"each container": {containers: list{one, two}, want: []string{
			"container-0-request-0 1 gpu spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]",
			"container-1-request-0 2 gpu spec.containers[1].resources.requests[deviceclass.resource.kubernetes.io/gpu]"}},
		"several resources": {containers: list{asking(map[string]string{"cpu": "1", implicit: "1", explicit: "3"})}, want: []string{
			"container-0-request-1 1 gpu spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]",
			"container-0-request-2 3 nic spec.containers[0].resources.requests[example.com/nic]"}},
		"an init container uses devices of containers": {init: list{two}, containers: list{one, one}, want: []string{
			"container-1-request-0 1 gpu spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]",
			"container-2-request-0 1 gpu spec.containers[1].resources.requests[deviceclass.resource.kubernetes.io/gpu]"}},
		"the largest init container": {init: list{one, asking(map[string]string{implicit: "4"}), two}, containers: list{one}, want: []string{
			"container-1-request-0 3 gpu spec.initContainers[1].resources.requests[deviceclass.resource.kubernetes.io/gpu]",
			"container-3-request-0 1 gpu spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]"}},
		"a sidecar before": {init: list{sidecar(one), two}, containers: list{one}, want: []string{
			"container-0-request-0 1 gpu spec.initContainers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]",
			"container-1-request-0 1 gpu spec.initContainers[1].resources.requests[deviceclass.resource.kubernetes.io/gpu]",
			"container-2-request-0 1 gpu spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]"}},
		"the pod itself": {containers: list{{}}, pod: map[string]string{implicit: "2"}, want: []string{
			"pod-request-0 2 gpu spec.resources.requests[deviceclass.resource.kubernetes.io/gpu]"}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: test.init, Containers: test.containers}}
		if test.pod != nil {
			pod.Spec.Resources = new(asking(test.pod).Resources)
		}
		var got []string
		for _, r := range extendedresource.Requests(pod, classOf) {
			got = append(got, fmt.Sprint(r.Name, " ", r.Exactly.Count, " ", r.Exactly.DeviceClassName, " ", r.Path))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

func TestSupersedes(t *testing.T) {
	class := func(name string, second int64) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}}
	}
	for _, test := range []struct {
		class, other *resourceapi.DeviceClass
		want         bool
	}{
		{class("b", 2), class("a", 1), true}, {class("a", 1), class("b", 2), false},
		{class("a", 1), class("b", 1), true}, {class("b", 1), class("a", 1), false},
	} {
		if got := extendedresource.Supersedes(test.class, test.other); got != test.want {
			t.Errorf("%s of %v, %s of %v: %t", test.class.Name, test.class.CreationTimestamp, test.other.Name, test.other.CreationTimestamp, got)
		}
	}
}
