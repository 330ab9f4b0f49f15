package evictor

import (
	"math/rand/v2"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// TestMattersAgreesWithDecide: a change of taints that does not matter to an allocation
// leaves its verdict and its preview as they are.
func TestMattersAgreesWithDecide(t *testing.T) {
	const seed = 7
	r := rand.New(rand.NewPCG(seed, seed))
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	without, with := 0, 0
	for n := range 50_000 {
		before := randomTaints(r, now)
		after := append([]resourceapi.DeviceTaint(nil), before...)
		if at := r.IntN(len(before) + 1); r.IntN(2) == 0 {
			after = append(after[:at:at], append(randomTaints(r, now), before[at:]...)...)
		} else {
			after = append(after[:at:at], randomTaints(r, now)...)
		}
		tolerations := randomTolerations(r)
		settings := Semantics{EmptyEffect: []toleration.EmptyEffect{"", toleration.EmptyEffectNoSchedule}[r.IntN(2)]}
		if (difference{before: before, after: after}).matters(tolerations, settings) {
			with++
			continue
		}
		without++
		for _, preview := range []bool{false, true} {
			was, is := verdictOn(before, tolerations, settings, preview, now), verdictOn(after, tolerations, settings, preview, now)
			if preview { // which has no time
				was, is = timeless(was), timeless(is)
			}
			if !was.equal(is) {
				t.Fatalf("case %d of seed %d, preview %v: %+v to %+v with %+v changes %+v to %+v", n, seed, preview, before, after, tolerations, was, is)
			}
		}
	}
	if without < 5_000 || with < 5_000 {
		t.Errorf("%d changes matter, %d do not", with, without)
	}
}

func verdictOn(taints []resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration, settings Semantics, preview bool, now time.Time) Verdict {
	claim := &resourceapi.ResourceClaim{}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "x", Tolerations: tolerations}}}}
	return Decide(claim, TaintsFunc(func(DeviceID) (all []Taint) {
		for i, taint := range taints {
			if preview {
				if taint.Effect != resourceapi.DeviceTaintEffectNone {
					continue
				}
				taint.Effect = resourceapi.DeviceTaintEffectNoExecute
			}
			all = append(all, Taint{DeviceTaint: taint, Index: i})
		}
		return all
	}), settings, now)
}

func timeless(v Verdict) Verdict {
	for i := range v.Reasons {
		v.Reasons[i].At = time.Time{}
	}
	return Verdict{Reasons: v.Reasons}
}

func randomTaints(r *rand.Rand, now time.Time) (taints []resourceapi.DeviceTaint) {
	effects := []resourceapi.DeviceTaintEffect{resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone}
	for range r.IntN(3) {
		taints = append(taints, resourceapi.DeviceTaint{Key: []string{"a", "b"}[r.IntN(2)], Value: []string{"", "x"}[r.IntN(2)],
			Effect: effects[r.IntN(len(effects))], TimeAdded: ptr.To(metav1.NewTime(now.Add(time.Duration(r.IntN(2)) * time.Second)))})
	}
	return taints
}

func randomTolerations(r *rand.Rand) (all []resourceapi.DeviceToleration) {
	for range r.IntN(3) {
		one := resourceapi.DeviceToleration{Key: []string{"", "a", "b"}[r.IntN(3)], Operator: resourceapi.DeviceTolerationOpExists,
			Effect: []resourceapi.DeviceTaintEffect{"", resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule}[r.IntN(3)]}
		if r.IntN(3) == 0 {
			one.TolerationSeconds = ptr.To[int64](60)
		}
		all = append(all, one)
	}
	return all
}

// TestTaintWithoutTimeMatters: the decision records when such a taint was first seen.
func TestTaintWithoutTimeMatters(t *testing.T) {
	tolerations := []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	taint := resourceapi.DeviceTaint{Key: "a", Effect: resourceapi.DeviceTaintEffectNoExecute}
	if !(difference{after: []resourceapi.DeviceTaint{taint}}).matters(tolerations, Semantics{}) {
		t.Error("a taint without a time does not matter")
	}
	taint.TimeAdded = ptr.To(metav1.Now())
	if (difference{after: []resourceapi.DeviceTaint{taint}}).matters(tolerations, Semantics{}) {
		t.Error("a tolerated taint matters")
	}
}
