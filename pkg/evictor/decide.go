package evictor

import (
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Decide says when and why the pods that use claim have to leave its devices. Only
// what is stored in the allocation counts: the tolerations that were copied into it,
// not those of the spec. A claim that is not allocated evicts nobody. now counts only
// for taints of which nobody knows since when they are there.
func Decide(claim *resourceapi.ResourceClaim, taints Taints, settings Settings, now time.Time) Verdict {
	if claim.Status.Allocation == nil {
		return Verdict{}
	}
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	var verdict Verdict
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		device := DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		for _, taint := range taints.Taints(device) {
			if taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
				continue
			}
			seconds, forever := tolerance(result.Tolerations, taint.DeviceTaint, settings.EmptyEffect)
			if forever {
				continue
			}
			its := taint // only of those that count
			verdict.Reasons = append(verdict.Reasons, Reason{
				Taint: &its, Device: device, Claim: name, ClaimUID: claim.UID,
				TolerationSeconds: seconds,
				At:                due(taint, seconds, claim.Status.Allocation, settings.TolerationStart, now),
			})
		}
	}
	return verdict.settled()
}

// due is when the toleration of a taint ends.
func due(taint Taint, seconds *int64, allocation *resourceapi.AllocationResult, from TolerationStart, now time.Time) time.Time {
	start := now
	switch {
	case !taint.TimeAdded.IsZero():
		start = taint.TimeAdded.Time
	case !taint.Since.IsZero():
		start = taint.Since
	}
	if seconds == nil {
		return start
	}
	if allocated := allocation.AllocationTimestamp; from == StartMaxOfTaintAndAllocation &&
		allocated != nil && allocated.After(start) {
		start = allocated.Time
	}
	return later(start, *seconds)
}

// settled is the verdict with its reasons sorted, none twice, and its time set to the
// earliest of them. The same device can be in a claim twice, by two requests.
func (v Verdict) settled() Verdict {
	if len(v.Reasons) == 0 {
		return Verdict{}
	}
	slices.SortFunc(v.Reasons, func(a, b Reason) int {
		if order := a.compare(b); order != 0 {
			return order
		}
		return a.At.Compare(b.At)
	})
	v.Reasons = slices.CompactFunc(v.Reasons, func(a, b Reason) bool { return a.compare(b) == 0 })
	v.At = earliest(v.Reasons)
	return v
}

// earliest is the time of reasons, of which there is one.
func earliest(reasons []Reason) time.Time {
	return slices.MinFunc(reasons, func(a, b Reason) int { return a.At.Compare(b.At) }).At
}

// Merge is the verdict of several claims together: the earliest time, all reasons.
func Merge(verdicts ...Verdict) Verdict {
	if len(verdicts) == 1 {
		return verdicts[0].settled()
	}
	var merged Verdict
	for _, v := range verdicts {
		merged.Reasons = append(merged.Reasons, v.Reasons...)
	}
	return merged.settled()
}
