// Package toleration says which device taints a toleration tolerates and for how
// long.
//
// It knows no client and no clock.
package toleration

import (
	"math"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Tolerates tells whether a toleration tolerates a taint. The meaning is that of
// ToleratesTaint in k8s.io/dynamic-resource-allocation/resourceclaim:
//
//   - An empty effect tolerates every effect.
//   - An empty key tolerates every key, whatever the operator is. With the operator
//     Equal, which an empty operator stands for, the values must be the same all the
//     same: so the toleration {} tolerates every taint that has no value.
//   - An operator other than Exists, Equal and the empty one tolerates nothing.
//
// What a taint's effect does is for the caller to know: None and unknown effects do
// nothing, tolerated or not.
func Tolerates(toleration resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) bool {
	if toleration.Effect != "" && toleration.Effect != taint.Effect {
		return false
	}
	if toleration.Key != "" && toleration.Key != taint.Key {
		return false
	}
	switch toleration.Operator {
	case "", resourceapi.DeviceTolerationOpEqual:
		return toleration.Value == taint.Value
	case resourceapi.DeviceTolerationOpExists:
		return true
	default:
		return false
	}
}

// MaxSeconds is the longest tolerationSeconds that a time.Duration can hold, about
// 292 years. Upstream multiplies without a check: more than this ends in the past.
const MaxSeconds = math.MaxInt64 / int64(time.Second)

// Expiry says when a toleration of a taint ends.
type Expiry struct {
	// Tolerated is whether any toleration matches at all.
	Tolerated bool
	// Forever is whether a toleration never ends; then At is zero.
	Forever bool
	// At is when the taint is no longer tolerated, if there is an end.
	At time.Time
}

// Expires returns until when tolerations hold for a taint with the effect NoExecute.
// A toleration without seconds holds for ever, one with zero or fewer seconds ends at
// once. Among several that match and end, the one that ends first counts, as in the
// eviction controller of Kubernetes 1.37. added is the time that is taken for a taint
// without timeAdded.
//
// tolerationSeconds count for the effect NoExecute only: API documentation of
// DeviceToleration.
func Expires(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint, added time.Time) Expiry {
	if taint.TimeAdded != nil {
		added = taint.TimeAdded.Time
	}
	var expiry Expiry
	for _, toleration := range tolerations {
		if !Tolerates(toleration, taint) {
			continue
		}
		if toleration.TolerationSeconds == nil || taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
			return Expiry{Tolerated: true, Forever: true}
		}
		if end := addSeconds(added, *toleration.TolerationSeconds); !expiry.Tolerated || end.Before(expiry.At) {
			expiry = Expiry{Tolerated: true, At: end}
		}
	}
	return expiry
}

// addSeconds saturates: what is beyond a time.Duration ends as late as one can.
func addSeconds(t time.Time, seconds int64) time.Time {
	return t.Add(time.Duration(min(max(seconds, 0), MaxSeconds)) * time.Second)
}
