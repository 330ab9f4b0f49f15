package evictor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Mode says what the controller does about its decisions.
type Mode string

const (
	// ModeObserve decides, counts and writes nothing. It is the default.
	ModeObserve Mode = "observe"
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
	case "", ModeObserve, ModeSupplement, ModeFull:
		return nil
	}
	return fmt.Errorf("mode %q: must be %q, %q or %q", m, ModeObserve, ModeSupplement, ModeFull)
}

// condition is the type of the condition that the mode writes into rules, empty for
// none. EvictionInProgress belongs to kube-controller-manager while that lives.
func (m Mode) condition() string {
	switch m {
	case ModeFull:
		return resourceapi.DeviceTaintConditionEvictionInProgress
	case ModeSupplement:
		return "dra-steward.io/EvictionInProgress"
	}
	return ""
}

func (m Mode) grace() time.Duration {
	if m == ModeSupplement {
		return SupplementGrace
	}
	return 0
}

// plan is the part of a verdict that is for us to carry out. Taints from before since
// wait for a confirmation: installing a controller evicts nobody.
func (m Mode) plan(pod *corev1.Pod, verdict Verdict, since time.Time) Verdict {
	switch m {
	case ModeSupplement:
		if disrupted(pod) {
			return Verdict{}
		}
		return verdict.Only(func(r Reason) bool { return r.ExtendedResource && !r.began().Before(since) })
	case ModeFull:
		return verdict.Only(func(r Reason) bool { return !r.began().Before(since) })
	}
	return Verdict{}
}

// began is when the taint was added, as far as that is known.
func (r Reason) began() time.Time {
	if !r.Taint.TimeAdded.IsZero() {
		return r.Taint.TimeAdded.Time
	}
	if !r.Taint.Since.IsZero() {
		return r.Taint.Since
	}
	return r.At
}

// disrupted says whether somebody else is about to end the pod.
func disrupted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason != DisruptionReason {
			return true
		}
	}
	return pod.DeletionTimestamp != nil
}
