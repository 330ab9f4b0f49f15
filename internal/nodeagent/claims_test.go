package nodeagent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

func podOf(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: ptr.To(claim)})
	}
	return pod
}

func claimFor(name string, consumers ...resourceapi.ResourceClaimConsumerReference) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID("uid-" + name)},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}, ReservedFor: consumers}}
}

// TestClaimsAreReadOnce: a claim that is reserved for its pod, or for a PodGroup, is read once
// for each pod; one that is not is read each time. What cannot be read is as it was.
func TestClaimsAreReadOnce(t *testing.T) {
	client := fake.NewClientset(
		claimFor("own", resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "a", UID: "a"}),
		claimFor("group", resourceapi.ResourceClaimConsumerReference{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "g"}),
		claimFor("free"))
	var away error
	reads := 0
	client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return away != nil, nil, away
	})
	w := &NodeView{client: client}
	a, b := podOf("a", "own", "group", "free", "absent"), podOf("b", "group")
	begin := time.Unix(1000, 0)
	for i, step := range []struct {
		pods          []*corev1.Pod
		away          error
		reads, claims int
	}{
		{[]*corev1.Pod{a}, nil, 4, 3},
		{[]*corev1.Pod{a}, nil, 2, 3},                              // free and absent again
		{[]*corev1.Pod{a, b}, nil, 3, 3},                           // group for b
		{[]*corev1.Pod{a, b}, nil, 2, 3},                           //
		{[]*corev1.Pod{a, b}, errors.New("connection lost"), 2, 3}, // as they were
		{[]*corev1.Pod{b}, errors.New("connection lost"), 0, 1},    // nothing to read
		{[]*corev1.Pod{a}, nil, 3, 3},                              // the rest again
	} {
		reads, away = 0, step.away
		now := begin.Add(time.Duration(i) * time.Second)
		claims, asOf, err := w.Claims(t.Context(), step.pods, now)
		if reads != step.reads || len(claims) != step.claims {
			t.Errorf("step %d: %d reads, %d claims, want %d and %d", i, reads, len(claims), step.reads, step.claims)
		}
		failed := step.away != nil && step.reads > 0
		if failed != (err != nil) || failed && !asOf.Equal(now.Add(-time.Second)) || !failed && !asOf.IsZero() {
			t.Errorf("step %d: as of %s, %v", i, asOf, err)
		}
	}
}

// TestClaimsOfEndedPods: a pod that has ended holds nothing, and its claim, which is reserved for it no
// more, is not read at each look.
func TestClaimsOfEndedPods(t *testing.T) {
	pods := []*corev1.Pod{podOf("runs", "runs")}
	objects := []runtime.Object{claimFor("runs", resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "runs", UID: "runs"})}
	for i := range 50 {
		name := fmt.Sprintf("ended-%d", i)
		pod := podOf(name, name)
		pod.Status.Phase = []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed}[i%2]
		pods, objects = append(pods, pod), append(objects, claimFor(name))
	}
	client, reads := fake.NewClientset(objects...), 0
	client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return false, nil, nil
	})
	w := &NodeView{client: client}
	for look, want := range []int{1, 0, 0} {
		reads = 0
		claims, _, err := w.Claims(t.Context(), pods, time.Unix(1000, 0))
		if reads != want || len(claims) != 1 || err != nil {
			t.Errorf("look %d: %d reads, want %d; %d claims, %v", look, reads, want, len(claims), err)
		}
	}
}
