package evictor

// The controller of Kubernetes 1.37 has known bugs; each test here is named after one
// and shows what is done instead.

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// one is a world of one pod on one device with one taint.
func one(added *metav1.Time, tolerations ...resourceapi.DeviceToleration) world {
	d := device(0)
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "claim"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "gpu", Driver: d.Driver, Pool: d.Pool, Device: d.Device, Tolerations: tolerations}},
	}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: "pod"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: "pod"}}
	pod.Spec.NodeName = "node"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("claim")}}
	return world{
		taints: map[DeviceID][]Taint{d: {{DeviceTaint: resourceapi.DeviceTaint{
			Key: "example.com/broken", Value: "xid-79", Effect: resourceapi.DeviceTaintEffectNoExecute, TimeAdded: added,
		}}}},
		claims: map[string]*resourceapi.ResourceClaim{"ns/claim": claim},
		pod:    pod,
	}
}

func (w world) decide(settings Semantics, now time.Time) Verdict {
	return DecidePod(w.pod, w, w, settings, now)
}

func expectAt(t *testing.T, got Verdict, want time.Time) {
	t.Helper()
	if !got.Evict() || !got.At.Equal(want) {
		t.Errorf("want an eviction at %s, got: %s", want, got.Explain(start))
	}
}

func expectNone(t *testing.T, got Verdict) {
	t.Helper()
	if got.Evict() {
		t.Errorf("want no eviction, got: %s", got.Explain(start))
	}
}

func tolerate(effect resourceapi.DeviceTaintEffect, seconds *int64) resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{Operator: resourceapi.DeviceTolerationOpExists, Effect: effect, TolerationSeconds: seconds}
}

var noExecute = resourceapi.DeviceTaintEffectNoExecute

// A pod that got its devices for extended resources is evicted like any other.
func TestBug1ExtendedResourcePods(t *testing.T) {
	w := one(ptr.To(metav1.NewTime(start)))
	w.pod.Spec.ResourceClaims = nil
	w.pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "claim"}
	w.claims["ns/claim"].OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod", UID: "pod", Controller: ptr.To(true)}}
	verdict := w.decide(Semantics{}, start)
	expectAt(t, verdict, start)
	if !verdict.Reasons[0].ExtendedResource {
		t.Error("the reason does not say that the claim is for extended resources")
	}
	w.claims["ns/claim"].OwnerReferences[0].UID = "the pod of this name before"
	expectNone(t, w.decide(Semantics{}, start))
}

// A toleration without an effect means all effects, by the API and the scheduler; its
// seconds are ignored since they are for NoExecute alone. A setting does as 1.37 does.
func TestBug2EmptyEffect(t *testing.T) {
	for _, seconds := range []*int64{nil, ptr.To[int64](5)} {
		w := one(ptr.To(metav1.NewTime(start)), tolerate("", seconds))
		expectNone(t, w.decide(Semantics{}, start))
		expectNone(t, w.decide(Semantics{EmptyEffect: toleration.EmptyEffectAll}, start))
		expectAt(t, w.decide(Semantics{EmptyEffect: toleration.EmptyEffectNoSchedule}, start), start)
	}
}

// Seconds that a time.Duration cannot hold are a long time, not the past.
func TestBug3TolerationSecondsOverflow(t *testing.T) {
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, seconds := range []int64{9_223_372_037, math.MaxInt64, math.MaxInt64 - 1} {
		want := end
		if seconds == 9_223_372_037 {
			want = time.Unix(start.Unix()+seconds, 0)
		}
		expectAt(t, one(ptr.To(metav1.NewTime(start)), tolerate(noExecute, &seconds)).decide(Semantics{}, start), want)
	}
	expectAt(t, one(ptr.To(metav1.NewTime(start)), tolerate(noExecute, ptr.To[int64](math.MinInt64))).decide(Semantics{}, start), start)
}

// A claim that was released and allocated again between two looks has the verdict of
// its devices now: nothing of an earlier decision is kept.
func TestBug6Reallocation(t *testing.T) {
	w := one(ptr.To(metav1.NewTime(start)))
	expectAt(t, w.decide(Semantics{}, start), start)
	w.claims["ns/claim"] = w.claims["ns/claim"].DeepCopy()
	w.claims["ns/claim"].Status.Allocation.Devices.Results[0].Device = "gpu-1"
	expectNone(t, w.decide(Semantics{}, start))
	w.claims["ns/claim"].Status.Allocation.Devices.Results[0].Device = "gpu-0"
	expectAt(t, w.decide(Semantics{}, start), start)
}

// A pod that a user deletes already is not evicted, so it is not counted either.
func TestBug7TerminatingPods(t *testing.T) {
	w := one(ptr.To(metav1.NewTime(start)))
	w.pod.DeletionTimestamp = ptr.To(metav1.NewTime(start))
	expectNone(t, w.decide(Semantics{}, start))
	if got := exemptionOf(w.pod); got != exemptTerminating {
		t.Errorf("spared since %q", got)
	}
}

// The seconds of a pod that comes late begin with the taint, as the API documents, or
// with its allocation where the site says so.
func TestBug10LatePods(t *testing.T) {
	w := one(ptr.To(metav1.NewTime(start)), tolerate(noExecute, ptr.To[int64](300)))
	late := start.Add(time.Hour)
	w.claims["ns/claim"].Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(late))
	expectAt(t, w.decide(Semantics{}, late), start.Add(300*time.Second))
	fair := Semantics{TolerationStart: StartMaxOfTaintAndAllocation}
	expectAt(t, w.decide(fair, late), late.Add(300*time.Second))
	w.claims["ns/claim"].Status.Allocation.AllocationTimestamp = nil
	expectAt(t, w.decide(fair, late), start.Add(300*time.Second))
	w.claims["ns/claim"].Status.Allocation.AllocationTimestamp = ptr.To(metav1.NewTime(start.Add(-time.Hour)))
	expectAt(t, w.decide(fair, late), start.Add(300*time.Second))
}

// A taint without a time is there since its rule was created or since it was seen, and
// where that is not known, since now.
func TestBug11NilTimeAdded(t *testing.T) {
	for _, added := range []*metav1.Time{nil, {}} {
		for _, seconds := range []*int64{nil, ptr.To[int64](60)} {
			var tolerations []resourceapi.DeviceToleration
			wait := time.Duration(0)
			if seconds != nil {
				tolerations = append(tolerations, tolerate(noExecute, seconds))
				wait = time.Minute
			}
			w := one(added, tolerations...)
			now := start.Add(time.Hour)
			expectAt(t, w.decide(Semantics{}, now), now.Add(wait))
			w.taints[device(0)][0].Since = start
			expectAt(t, w.decide(Semantics{}, now), start.Add(wait))
		}
	}
}

// Another pod under the same name does not inherit the verdict, nor the claim.
func TestBug13ReplacedPod(t *testing.T) {
	w := one(ptr.To(metav1.NewTime(start)))
	w.pod.UID = "another pod"
	expectNone(t, w.decide(Semantics{}, start))
}

// A pod that has finished is spared though its claim is still reserved for it.
func TestBug14FinishedPods(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		w := one(ptr.To(metav1.NewTime(start)))
		w.pod.Status.Phase = phase
		expectNone(t, w.decide(Semantics{}, start))
		if got := exemptionOf(w.pod); got != exemptFinished {
			t.Errorf("%s: spared since %q", phase, got)
		}
	}
}
