package evictor

import (
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
)

// Mode says what the controller does about its decisions.
type Mode string

const (
	// ModeObserve decides, counts and writes nothing. It is the default.
	ModeObserve Mode = "observe"
	// ModeAuto is observe, supplement or full, for slices and for rules each as long as
	// [Coexistence] says so.
	ModeAuto Mode = "auto"
	// ModeSupplement stands beside the controller in kube-controller-manager and evicts
	// only the pods that it misses: those on devices for extended resources. It gives
	// that controller [SupplementGrace] to act first, leaves pods alone that somebody
	// disrupts already, and writes only a condition of its own.
	ModeSupplement Mode = "supplement"
	// ModeFull does all of KEP-5055 where no other controller does.
	ModeFull Mode = "full"
)

// SupplementGrace is how long after a pod is due the controller in
// kube-controller-manager has time to act.
const SupplementGrace = 15 * time.Second

// Validate returns an error for words that are none of the above.
func (m Mode) Validate() error {
	switch m {
	case "", ModeObserve, ModeAuto, ModeSupplement, ModeFull:
		return nil
	}
	return fmt.Errorf("mode %q: must be %q, %q, %q or %q", m, ModeObserve, ModeAuto, ModeSupplement, ModeFull)
}

// shares are those of a mode that does not change, and with which auto begins.
func (m Mode) shares() Shares {
	switch m {
	case ModeSupplement:
		return Shares{Slices: presentShare, Rules: presentShare}
	case ModeFull:
		return Shares{Slices: absentShare, Rules: absentShare}
	}
	return Shares{}
}

// A Share is the part of the evictions that is ours.
type Share uint8

const (
	// ShareNone is none of them.
	ShareNone Share = iota
	// ShareMissed are those that nobody has begun [SupplementGrace] after they are due.
	ShareMissed
	// ShareAll are all of them.
	ShareAll
)

// String is what metrics and logs say.
func (s Share) String() string { return [...]string{"none", "missed", "all"}[s] }

// ClassShares are the shares of the classes of pods.
type ClassShares struct {
	// Ordinary pods have claims. Extended ones have devices for extended resources,
	// which the controller of Kubernetes 1.37 misses.
	Ordinary, Extended Share
}

// Shares are our part for each source of taints and class of pods.
type Shares struct{ Slices, Rules ClassShares }

// presentShare and absentShare are ours where the other controller is there, and not.
var (
	presentShare = ClassShares{Ordinary: ShareNone, Extended: ShareMissed}
	absentShare  = ClassShares{Ordinary: ShareAll, Extended: ShareAll}
)

// of is our share of evictions for a reason.
func (s Shares) of(r Reason) Share {
	classes := s.Slices
	if r.Taint.FromRule() {
		classes = s.Rules
	}
	if r.ExtendedResource {
		return classes.Extended
	}
	return classes.Ordinary
}

// ours are the reasons of which a share is ours, or all where nothing is.
func (s Shares) ours(v Verdict) Verdict {
	if s == (Shares{}) {
		return v
	}
	return v.Only(func(r Reason) bool { return s.of(r) != ShareNone })
}

// OwnCondition is the condition of rules that we write where EvictionInProgress belongs
// to kube-controller-manager.
const OwnCondition = "dra-steward.io/EvictionInProgress"

// condition is the type of the condition that we write into rules, empty for none.
func (s Shares) condition() string {
	switch {
	case s.Rules.Ordinary == ShareAll:
		return resourceapi.DeviceTaintConditionEvictionInProgress
	case s.Rules != ClassShares{}:
		return OwnCondition
	}
	return ""
}

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
