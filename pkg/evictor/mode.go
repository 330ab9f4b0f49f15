package evictor

import (
	"fmt"
	"time"

	"github.com/dra-steward/dra-steward/pkg/toleration"
)

// Mode selects the evictions that the controller carries out.
type Mode string

const (
	// ModeObserve decides and counts, and writes nothing. It is the default.
	ModeObserve Mode = "observe"
	// ModeAuto is observe, supplement or full, separately for taints in slices and for
	// rules, depending on the detected state of the in-tree controller.
	ModeAuto Mode = "auto"
	// ModeSupplement evicts only the pods that the in-tree controller misses: those with
	// devices for extended resources. It waits 15 seconds for that controller, skips
	// pods that another controller disrupts, and writes only a condition of its own.
	ModeSupplement Mode = "supplement"
	// ModeFull carries out all evictions of KEP-5055, for clusters without the in-tree
	// controller.
	ModeFull Mode = "full"
)

// supplementGrace is the time that the in-tree controller has to evict a due pod.
const supplementGrace = 15 * time.Second

// Validate returns an error for an unknown mode.
func (m Mode) Validate() error {
	switch m {
	case "", ModeObserve, ModeAuto, ModeSupplement, ModeFull:
		return nil
	}
	return fmt.Errorf("mode %q: must be %q, %q, %q or %q", m, ModeObserve, ModeAuto, ModeSupplement, ModeFull)
}

// ownCondition is the condition of rules that replaces EvictionInProgress where that
// belongs to the in-tree controller.
const ownCondition = "dra-steward.io/EvictionInProgress"

// Settings select the semantics where the API documentation and its implementations
// differ. The zero value is what the API documents.
type Semantics struct {
	// EmptyEffect is the meaning of a toleration without an effect for NoExecute taints.
	EmptyEffect toleration.EmptyEffect
	// TolerationStart is when TolerationSeconds start to count.
	TolerationStart TolerationStart
	// IgnorePodGroups skips pods that hold a claim only through the reservation of their
	// PodGroup, for clusters without the feature gate DRAWorkloadResourceClaims.
	IgnorePodGroups bool
}

// TolerationStart is when TolerationSeconds start to count.
type TolerationStart string

const (
	// StartTaintAdded is the default and what the API documents: when the taint is added.
	// A pod that is scheduled later has less time or none.
	StartTaintAdded TolerationStart = "TaintAdded"
	// StartMaxOfTaintAndAllocation starts with the allocation if that is later, so that a
	// late pod is not evicted and rescheduled in a loop. For an allocation without a time
	// it is StartTaintAdded.
	StartMaxOfTaintAndAllocation TolerationStart = "MaxOfTaintAndAllocation"
)

// Validate returns an error for unknown values.
func (s Semantics) Validate() error {
	switch s.EmptyEffect {
	case "", toleration.EmptyEffectAll, toleration.EmptyEffectNoSchedule:
	default:
		return fmt.Errorf("emptyEffect %q: must be %q or %q", s.EmptyEffect, toleration.EmptyEffectAll, toleration.EmptyEffectNoSchedule)
	}
	switch s.TolerationStart {
	case "", StartTaintAdded, StartMaxOfTaintAndAllocation:
	default:
		return fmt.Errorf("tolerationStart %q: must be %q or %q", s.TolerationStart, StartTaintAdded, StartMaxOfTaintAndAllocation)
	}
	return nil
}
