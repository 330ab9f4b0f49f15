package plugin

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// The arguments are those of DynamicResources, with its defaults, and no others.
func TestArguments(t *testing.T) {
	args, err := arguments(nil)
	if err != nil || args.FilterTimeout.Duration != 10*time.Second || args.BindingTimeout.Duration != 600*time.Second {
		t.Errorf("defaults: %+v, %v", args, err)
	}
	args, err = arguments(&runtime.Unknown{Raw: []byte(`{"filterTimeout":"3s"}`)})
	if err != nil || args.FilterTimeout.Duration != 3*time.Second {
		t.Errorf("given: %+v, %v", args, err)
	}
	if _, err = arguments(&runtime.Unknown{Raw: []byte(`{"filterTimout":"3s"}`)}); err == nil || !strings.Contains(err.Error(), "filterTimout") {
		t.Errorf("misspelt: %v", err)
	}
}

// Pods with claims wait for devices, and those with the resources of a domain may.
func TestMayUseDevices(t *testing.T) {
	asks := func(name corev1.ResourceName) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "p", Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}}}}}}
	}
	claim := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "p", ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}}}
	bound := claim.DeepCopy()
	bound.Spec.NodeName = "node"
	other := claim.DeepCopy()
	other.Spec.SchedulerName = "q"
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want int
	}{"claim": {claim, 1}, "bound": {bound, 0}, "other profile": {other, 0}, "cpu": {asks("cpu"), 0}, "extended resource": {asks("example.com/gpu"), 1}} {
		if keys, err := waitingIn("p")(tt.pod); err != nil || len(keys) != tt.want {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
}
