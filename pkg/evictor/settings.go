package evictor

import "fmt"

// Settings are where the documentation of the API and its implementations leave a
// choice. The zero value is what the API documents.
type Settings struct {
	// EmptyEffect says what a toleration without an effect does for NoExecute taints.
	EmptyEffect EmptyEffect
	// TolerationStart says when TolerationSeconds begin to count.
	TolerationStart TolerationStart
	// IgnorePodGroups leaves pods alone that hold a claim only through the reservation
	// of their PodGroup, as clusters without the feature gate DRAWorkloadResourceClaims
	// do.
	IgnorePodGroups bool
}

// EmptyEffect says what a toleration without an effect means for eviction.
type EmptyEffect string

const (
	// EmptyEffectAll is the default and what the API documents: it matches all
	// effects, and its seconds are ignored since it is not one for NoExecute
	// (DeviceToleration in resource.k8s.io/v1).
	EmptyEffectAll EmptyEffect = "All"
	// EmptyEffectNoSchedule is what the controller in Kubernetes 1.37 does: the pod is
	// scheduled onto the device and then evicted from it.
	EmptyEffectNoSchedule EmptyEffect = "NoSchedule"
)

// TolerationStart says when TolerationSeconds begin to count.
type TolerationStart string

const (
	// StartTaintAdded is the default and what the API documents: with the taint. A pod
	// that is scheduled onto the device later has less time or none.
	StartTaintAdded TolerationStart = "TaintAdded"
	// StartMaxOfTaintAndAllocation counts from the allocation if that was later, so
	// that a late pod is not evicted as soon as it is scheduled, again and again. Where
	// the allocation does not say when it was made it is like StartTaintAdded.
	StartMaxOfTaintAndAllocation TolerationStart = "MaxOfTaintAndAllocation"
)

// Validate returns an error for words that are none of the above.
func (s Settings) Validate() error {
	switch s.EmptyEffect {
	case "", EmptyEffectAll, EmptyEffectNoSchedule:
	default:
		return fmt.Errorf("emptyEffect %q: must be %q or %q", s.EmptyEffect, EmptyEffectAll, EmptyEffectNoSchedule)
	}
	switch s.TolerationStart {
	case "", StartTaintAdded, StartMaxOfTaintAndAllocation:
	default:
		return fmt.Errorf("tolerationStart %q: must be %q or %q", s.TolerationStart, StartTaintAdded, StartMaxOfTaintAndAllocation)
	}
	return nil
}
