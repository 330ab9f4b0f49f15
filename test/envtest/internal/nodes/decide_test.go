package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecide(t *testing.T) {
	requested := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	name := "device"
	mutate := func(changes ...func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "uid-p"}}
		for _, change := range changes {
			change(pod)
		}
		return pod
	}
	begun := func(pod *corev1.Pod) { pod.Status = running(pod, requested) }
	succeeded := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	deleted := func(pod *corev1.Pod) {
		grace := int64(30)
		at := metav1.NewTime(requested.Add(30 * time.Second))
		pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp = &grace, &at
	}
	gated := func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	}
	open := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	}
	claiming := func(pod *corev1.Pod) {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
	}
	templated := func(pod *corev1.Pod) {
		template := "template"
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	}
	created := func(pod *corev1.Pod) {
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	}
	extended := func(pod *corev1.Pod) {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
	}
	allocated := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Status:     resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{}},
	}
	reserved := allocated.DeepCopy()
	reserved.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "uid-p"}}
	owned := reserved.DeepCopy()
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(mutate(), corev1.SchemeGroupVersion.WithKind("Pod"))}

	for what, test := range map[string]struct {
		pod   *corev1.Pod
		claim *resourceapi.ResourceClaim
		grace float64
		after time.Duration // since the deletion was requested
		want  step
		again time.Duration
	}{
		"new":                             {pod: mutate(), want: begin},
		"begun":                           {pod: mutate(begun), want: keep},
		"succeeded":                       {pod: mutate(succeeded), want: keep},
		"gate closed":                     {pod: mutate(gated, begun), want: keep},
		"gate opened later":               {pod: mutate(gated, begun, open), want: begin},
		"claim absent":                    {pod: mutate(claiming), want: keep, again: claimsRetry},
		"claim not reserved":              {pod: mutate(claiming), claim: allocated, want: keep, again: claimsRetry},
		"claim reserved":                  {pod: mutate(claiming), claim: reserved, want: begin},
		"claim of template not created":   {pod: mutate(templated), claim: owned, want: keep, again: claimsRetry},
		"claim of template":               {pod: mutate(templated, created), claim: owned, want: begin},
		"claim of template of another":    {pod: mutate(templated, created), claim: reserved, want: keep, again: claimsRetry},
		"extended resource not reserved":  {pod: mutate(extended), claim: allocated, want: keep, again: claimsRetry},
		"extended resource":               {pod: mutate(extended), claim: reserved, want: begin},
		"deleted":                         {pod: mutate(begun, deleted), want: end},
		"deleted before its claim":        {pod: mutate(claiming, deleted), want: end},
		"deleted, in its whole grace":     {pod: mutate(begun, deleted), grace: 1, after: 10 * time.Second, want: keep, again: 20 * time.Second},
		"deleted, in a part of its grace": {pod: mutate(begun, deleted), grace: 0.5, after: 10 * time.Second, want: keep, again: 5 * time.Second},
		"deleted, after its grace":        {pod: mutate(begun, deleted), grace: 1, after: 30 * time.Second, want: end},
		"deleted, finished in its grace":  {pod: mutate(succeeded, deleted), grace: 1, want: end},
	} {
		claim := func(string) *resourceapi.ResourceClaim { return test.claim }
		got, again := decide(test.pod, claim, test.grace, requested.Add(test.after))
		if got != test.want || again != test.again {
			t.Errorf("%s: got step %d again after %s, want %d after %s", what, got, again, test.want, test.again)
		}
	}
}

func TestStatus(t *testing.T) {
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "once"}, {Name: "sidecar", RestartPolicy: &always}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	pod.Status = running(pod, at)
	if pod.Status.InitContainerStatuses[0].State.Terminated == nil || pod.Status.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("init containers: %+v", pod.Status.InitContainerStatuses)
	}
	if readyCondition(pod) != corev1.ConditionTrue || pod.Status.Conditions[0].Type != corev1.PodScheduled {
		t.Errorf("conditions: %+v", pod.Status.Conditions)
	}
	if again := running(pod, at.Add(time.Hour)); again.Conditions[1].LastTransitionTime != pod.Status.Conditions[1].LastTransitionTime {
		t.Error("a condition that does not change gets a new time")
	}
	pod.Status = terminated(pod, at.Add(time.Minute))
	if pod.Status.Phase != corev1.PodFailed || readyCondition(pod) != corev1.ConditionFalse {
		t.Errorf("terminated: %+v", pod.Status)
	}
}
