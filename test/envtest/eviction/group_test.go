package eviction_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dra-steward/dra-steward/test/envtest"
)

// allowGroups lets a cluster of 1.37 have PodGroups with claims.
func allowGroups(o *envtest.Options) {
	o.FeatureGates = map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true}
	o.RuntimeConfig = map[string]bool{"scheduling.k8s.io/v1beta1": true}
}

// group creates a PodGroup whose pods share a claim, made from the template, and waits
// until they run.
func (w *world) group(t *testing.T, name string, n int) (names []string) {
	t.Helper()
	group := &schedulingapi.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingapi.GangSchedulingPolicy{MinCount: int32(n)}
	group.Spec.ResourceClaims = []schedulingapi.PodGroupResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
	must(w.SchedulingV1beta1().PodGroups(namespace).Create(t.Context(), group, metav1.CreateOptions{}))(t)
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, "-", i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "train", Image: "registry.example.com/train:1"}}
		pod.Spec.TerminationGracePeriodSeconds = new(int64(0))
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group.Name}
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("gpu")}}
		must(w.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}))(t)
		names = append(names, pod.Name)
	}
	w.run(t, names)
	claims := must(w.ResourceV1().ResourceClaims(namespace).List(t.Context(), metav1.ListOptions{}))(t)
	shared := 0
	for i := range claims.Items {
		if by := claims.Items[i].Status.ReservedFor; len(by) == 1 && by[0].Resource == "podgroups" {
			shared++
		}
	}
	if shared != 1 {
		t.Fatalf("%d claims are reserved for a PodGroup", shared)
	}
	return names
}
