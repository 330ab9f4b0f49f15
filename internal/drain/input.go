package drain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/controller/reconcile"
	"github.com/dra-steward/dra-steward/internal/guard"
)

// An Input is what [Decide] looks at. Nothing in it is changed.
type Input struct {
	// Drain is the drain as it is stored, the newest that is known.
	Drain *v1alpha1.DeviceDrain
	// Devices are those that it is about, as [Resolve] says.
	Devices Devices
	// Pools are the published pools with devices of the drain; the value is true for a pool
	// that publishes no other devices.
	Pools map[Pool]bool
	// Unpublished is how many of them no slice has.
	Unpublished int
	// Siblings are published devices that share counters with those of the drain.
	Siblings []string
	// Rules are the DeviceTaintRules that belong to the drain.
	Rules []*resourceapi.DeviceTaintRule
	// CannotCordon says why no rule can be written; empty if they can.
	CannotCordon string
	// Holders are the claims that hold one of the devices, and who uses them.
	Holders []Holder
	// Outcomes are those of the pods in status.evicting. A missing one is unknown: the
	// controller has restarted.
	Outcomes map[types.UID]Outcome
	// Evicted is when the API server had answered the last evictions that this process asked for.
	Evicted time.Time
	// Evicting are pods whose eviction the API server has accepted, for this or another
	// drain, though they do not show it yet.
	Evicting map[types.UID]bool
	// Asked are pods that other drains evict now, without an answer yet.
	Asked map[types.UID]bool
	// Spent is how many evictions, of all drains, the status of a PodDisruptionBudget does not
	// show yet, by the UID of the budget.
	Spent map[types.UID]int
	// Refusals are pods whose eviction was refused a short time ago.
	Refusals map[types.UID]Refusal
	// Requests are the EvictionRequests of the drain. They are not known if it has none and
	// makes none.
	Requests Requests
	// Thresholds are what may be hit without an acknowledgement, DriverDevices is how many
	// devices the drivers of the drain publish, 0 if that is not known.
	Thresholds    guard.Thresholds
	DriverDevices int
	// HeldDevices are how many of the devices claims hold.
	HeldDevices int
	// Stranded are the pods that do not land again; nil if that was not asked now.
	Stranded *guard.Stranded
	// Version is that of the API server, empty if it is not known.
	Version string
	// Settings are the times that the drain keeps.
	Settings Delays
	Now      time.Time
}

// A Holder is a claim that holds a device of the drain.
type Holder struct {
	Claim *resourceapi.ResourceClaim
	// Pods use the claim.
	Pods []Pod
}

// A Pod is a pod with the PodDisruptionBudgets that speak of it.
type Pod struct {
	*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
}

// An Outcome is the result of an eviction.
type Outcome string

const (
	// Accepted: the API server has accepted it.
	Accepted Outcome = "Accepted"
	// Gone: there was no such pod any more.
	Gone Outcome = "Gone"
	// Refused: a budget, or something else, did not allow it; see [Refusal].
	Refused Outcome = "Refused"
)

// A Refusal is why an eviction was refused.
type Refusal struct {
	// Budget is true if a PodDisruptionBudget did not allow it.
	Budget bool
	// Message is what the API server said.
	Message string
	// Until is when it may be tried again.
	Until time.Time
}

// Delays are the times that drains keep. Zero values are replaced by the defaults.
type Delays struct {
	// SchedulerSync is how long after a rule was written the scheduler has surely seen it, 10 s
	// by default.
	SchedulerSync time.Duration
	// Backoff is how long pods that came back are left alone, 5 minutes by default; it
	// doubles each time, up to BackoffMax, an hour by default.
	Backoff, BackoffMax time.Duration
}

func (s Delays) schedulerSync() time.Duration { return orElse(s.SchedulerSync, 10*time.Second) }

// backoff is how long to wait after a number of attempts.
func (s Delays) backoff(attempts int32) time.Duration {
	wait, most := orElse(s.Backoff, 5*time.Minute), orElse(s.BackoffMax, time.Hour)
	for range min(attempts-1, 30) {
		if wait *= 2; wait >= most {
			break
		}
	}
	return min(wait, max(most, orElse(s.Backoff, 5*time.Minute)))
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// A Decision is what comes next. The rules are written first, then the status, and only
// if that has succeeded the pods are evicted.
type Decision struct {
	// Create, Correct and Delete are rules. Those to correct have the name of one that
	// exists.
	Create, Correct, Delete []*resourceapi.DeviceTaintRule
	// Status is the whole new status.
	Status v1alpha1.DeviceDrainStatus
	// Evict are the pods to evict now; status.evicting has them.
	Evict []v1alpha1.DrainPod
	// Ask are the pods to ask now by an EvictionRequest; status.requested has them.
	Ask []v1alpha1.DrainPod
	// Withdraw are EvictionRequests that the drain no longer needs.
	Withdraw []Request
	// FellBack are the pods whose request has come to nothing since the last step.
	FellBack []Fallback
	// Order are the pods that can be evicted, in eviction order, with those to evict now.
	Order []Pod
	reconcile.Alarm

	// attempts are the positions of status.attempts, by UID.
	attempts map[types.UID]int
}
