// Package toleration evaluates device tolerations: which taints they match, and for how
// long.
//
// The API documentation, the scheduler and the eviction controller of Kubernetes 1.37
// disagree about tolerations without an effect. An [Evaluator] names the reading that a
// question needs, so that the eviction controller, the impact of a taint and the node
// agent differ only where they say so.
//
// The package knows no client and no clock.
package toleration

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// EmptyEffect is the meaning of a toleration without an effect for NoExecute taints.
type EmptyEffect string

const (
	// EmptyEffectAll is the default and what the API documents: the toleration matches all
	// effects. Its tolerationSeconds are ignored, because its effect is not NoExecute, so
	// it has no end.
	EmptyEffectAll EmptyEffect = "All"
	// EmptyEffectNoSchedule is what Kubernetes 1.37 does: the scheduler places the pod, and
	// the in-tree eviction controller evicts it.
	EmptyEffectNoSchedule EmptyEffect = "NoSchedule"
)

// An Evaluator evaluates tolerations. The zero value follows the API documentation.
type Evaluator struct {
	// EmptyEffect is the meaning of a toleration without an effect; empty stands for
	// EmptyEffectAll.
	EmptyEffect EmptyEffect
}

// A Period is how long a taint is tolerated. The zero value is not at all.
type Period struct {
	// Tolerated reports whether a toleration matches.
	Tolerated bool
	// Seconds is the length, counted from the time of the taint; nil has no end. It is not
	// negative.
	Seconds *int64
}

// Forever reports whether the taint is tolerated without an end.
func (p Period) Forever() bool { return p.Tolerated && p.Seconds == nil }

// Tolerates reports whether a toleration matches a taint, as ToleratesTaint of
// k8s.io/dynamic-resource-allocation does, with the Evaluator's reading of an empty effect:
//
//   - An empty key matches every key, whatever the operator is. With the operator
//     Equal, which an empty operator stands for, the values still have to be equal: the
//     toleration {} matches every taint without a value.
//   - An operator other than Exists, Equal and the empty one matches nothing.
//
// The caller checks what the effect of the taint does: None and unknown effects do
// nothing, tolerated or not.
func (e Evaluator) Tolerates(toleration resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) bool {
	if toleration.Effect == "" && e.EmptyEffect == EmptyEffectNoSchedule && taint.Effect == resourceapi.DeviceTaintEffectNoExecute {
		return false
	}
	return resourceclaim.ToleratesTaint(toleration, taint)
}

// Evaluate returns how long tolerations tolerate a taint. One that matches without seconds
// has no end. Among several with seconds the shortest counts, as in the eviction controller
// of Kubernetes 1.37; negative seconds count as 0. Seconds count for tolerations with the
// effect NoExecute only (API documentation of DeviceToleration.TolerationSeconds).
func (e Evaluator) Evaluate(tolerations []resourceapi.DeviceToleration, taint resourceapi.DeviceTaint) (period Period) {
	for _, t := range tolerations {
		if !e.Tolerates(t, taint) {
			continue
		}
		if t.TolerationSeconds == nil || t.Effect != resourceapi.DeviceTaintEffectNoExecute {
			return Period{Tolerated: true}
		}
		if seconds := max(*t.TolerationSeconds, 0); !period.Tolerated || seconds < *period.Seconds {
			period = Period{Tolerated: true, Seconds: &seconds}
		}
	}
	return period
}

// TaintText returns a taint in the notation of kubectl: key=value:effect, or key:effect.
func TaintText(taint resourceapi.DeviceTaint) string {
	text := taint.Key
	if taint.Value != "" {
		text += "=" + taint.Value
	}
	return text + ":" + string(taint.Effect)
}
