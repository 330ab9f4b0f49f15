package evictor

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// start is when the worlds of the tests begin.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// A world is what a decision looks at: a map of taints and a map of claims.
type world struct {
	taints map[DeviceID][]Taint
	claims map[string]*resourceapi.ResourceClaim
	pod    *corev1.Pod
}

func (w world) Taints(d DeviceID) []Taint { return w.taints[d] }

func (w world) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return w.claims[namespace+"/"+name]
}

// bytes reads choices from data, zeros when it is used up.
type bytes struct{ data []byte }

func (b *bytes) below(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	choice := int(b.data[0]) % n
	b.data = b.data[1:]
	return choice
}

func pick[T any](b *bytes, from ...T) T { return from[b.below(len(from))] }

// worldOf makes a world from any bytes: one pod, up to three claims, few devices, so
// that everything meets everything.
func worldOf(b *bytes) world {
	w := world{taints: map[DeviceID][]Taint{}, claims: map[string]*resourceapi.ResourceClaim{}}
	for i := range 3 {
		d := device(i)
		for n := range b.below(4) {
			w.taints[d] = append(w.taints[d], taintOf(b, n))
		}
	}
	w.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: pick[types.UID](b, "pod", "pod", "other")}}
	w.pod.Spec.NodeName = pick(b, "node", "node", "node", "")
	w.pod.Status.Phase = pick(b, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed)
	for i := range b.below(4) {
		claim := claimOf(b, fmt.Sprint("claim-", i))
		w.claims["ns/"+claim.Name] = claim
		use(b, w.pod, claim)
	}
	return w
}

func device(i int) DeviceID {
	return DeviceID{Driver: "gpu.example.com", Pool: "node", Device: fmt.Sprint("gpu-", i)}
}

func taintOf(b *bytes, n int) Taint {
	t := Taint{DeviceTaint: resourceapi.DeviceTaint{
		Key:    pick(b, "example.com/a", "example.com/b"),
		Value:  pick(b, "", "x"),
		Effect: pick(b, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone, "Future"),
	}, Index: n}
	if b.below(6) > 0 {
		t.TimeAdded = ptr.To(metav1.NewTime(start.Add(time.Duration(b.below(10)) * time.Second)))
	} else {
		t.Since = start.Add(time.Duration(b.below(10)) * time.Second)
	}
	if b.below(2) == 0 {
		name := pick(b, "rule-a", "rule-b")
		t.Rule = Rule{Name: name, UID: types.UID(name)}
	}
	return t
}

func tolerationOf(b *bytes) resourceapi.DeviceToleration {
	t := resourceapi.DeviceToleration{
		Key:      pick(b, "example.com/a", "example.com/b", ""),
		Operator: pick(b, resourceapi.DeviceTolerationOpExists, resourceapi.DeviceTolerationOpEqual, "", "Odd"),
		Value:    pick(b, "", "x"),
		Effect:   pick(b, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, ""),
	}
	if b.below(4) > 0 {
		t.TolerationSeconds = ptr.To(pick[int64](b, 0, 1, 2, 3, 5, -1, math.MinInt64, math.MaxInt64, 9_223_372_037))
	}
	return t
}

func claimOf(b *bytes, name string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if b.below(8) == 7 {
		return claim
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	if b.below(2) == 1 {
		claim.Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(start.Add(time.Duration(b.below(12)) * time.Second)))
	}
	for range b.below(3) + 1 {
		d := device(b.below(4))
		result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: d.Driver, Pool: d.Pool, Device: d.Device}
		for range b.below(3) {
			result.Tolerations = append(result.Tolerations, tolerationOf(b))
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
	}
	return claim
}

// use makes pod use claim: by name, by a template, for extended resources.
func use(b *bytes, pod *corev1.Pod, claim *resourceapi.ResourceClaim) {
	if b.below(6) < 5 {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor,
			resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "pod", UID: "pod"})
	}
	owned := func() {
		claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod", UID: "pod", Controller: ptr.To(true)}}
	}
	switch b.below(4) {
	case 0, 1:
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimName: &claim.Name})
	case 2:
		owned()
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim.Name, ResourceClaimTemplateName: ptr.To("template")})
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, corev1.PodResourceClaimStatus{Name: claim.Name, ResourceClaimName: &claim.Name})
	case 3:
		owned()
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim.Name}
	}
}

func settingsOf(b *bytes) Semantics {
	return Semantics{
		EmptyEffect:     pick(b, "", toleration.EmptyEffectAll, toleration.EmptyEffectNoSchedule),
		TolerationStart: pick(b, "", StartTaintAdded, StartMaxOfTaintAndAllocation),
	}
}
