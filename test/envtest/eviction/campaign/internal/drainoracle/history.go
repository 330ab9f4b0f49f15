package drainoracle

import (
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// The actions of a deadline.
const (
	Keep   = "Keep"
	Delete = "Delete"
	Fail   = "Fail"
)

// A Period is the time between two writes.
type Period struct{ Begin, End oracle.Moment }

// A Deadline has the time since the creation of a drain, which the API server stores in seconds.
type Deadline struct {
	oracle.Moment
	Action string
}

// A Drain is a DeviceDrain as its author writes it. No two have the same name.
type Drain struct {
	Name    string
	Devices []oracle.Device
	// PerMinute is evictionsPerMinute. PerNamespace and PerNode are zero if there is no limit.
	PerMinute, PerNamespace, PerNode int
	// KeepsBare is true unless podsWithoutController is Evict, Uncordons is true if atEnd is Uncordon.
	KeepsBare, Uncordons, DryRun bool
	Deadline                     *Deadline
	Pauses                       []Period
	Period
}

// A Pod is bound to a node when it is created, and holds its devices until it is gone. End is the time
// when a user deleted it.
type Pod struct {
	UID, Name, Namespace, Node, App string
	// Controlled pods have a controller.
	Controlled bool
	Devices    []oracle.Device
	Period
}

// A Removal is an eviction of a pod, or a deletion, which the API server has accepted.
type Removal struct {
	At     time.Time
	Pod    string
	Delete bool
	// Unanswered removals had an answer that leaves the result open.
	Unanswered bool
}

// A Write is one of a rule that cordons a device of a drain, by the controller.
type Write struct {
	At    time.Time
	Drain string
}

// A Tampering is the deletion or change of such a rule by a user.
type Tampering struct {
	Rule
	oracle.Moment
}

// A Rule cordons a device. A rule without the name of a device cordons a pool.
type Rule struct {
	Drain  string
	Device oracle.Device
}

// A State is what the status of a drain reports.
type State struct {
	Drained, Failed bool
	// Since is the time of the transition to Drained, in seconds.
	Since time.Time
}

// A Sample is what the API server returns: the rules first, then the drains.
type Sample struct {
	oracle.Moment
	Rules  []Rule
	Drains map[string]State
}

// A Budget is a period in which a PodDisruptionBudget allows no eviction of the pods of an app.
type Budget struct {
	Namespace, App string
	// Protected are the pods that were ready when the status of the budget showed that; the period
	// begins before, InForce is the time after.
	Protected map[string]bool
	InForce   time.Time
	Period
}

// A History is what happened in a cluster until a time.
type History struct {
	Drains   []*Drain
	Pods     []*Pod
	Removals []Removal
	Writes   []Write
	Tampered []Tampering
	Samples  []Sample
	Budgets  []*Budget
	// Gone is when pods were removed from the API server, Left are those that remain.
	Gone map[string]time.Time
	Left map[string]bool

	// Unled are the periods in which there may be no leader, and Stale those in which the leader may
	// not observe changes.
	Unled, Stale []oracle.Span
	// Work is the time that an undisturbed leader has for a step, Observation the time to observe a
	// change, and Flight the time from its decision until the API server receives a request.
	Work, Observation, Flight time.Duration
	// Leaving is the longest time from the eviction of a pod until it is gone.
	Leaving time.Duration
	Until   time.Time
}

const (
	// sync is how long before the first eviction the last rule is written.
	sync = 10 * time.Second
	// returns is how long the devices are free before a drain with evictions is Drained.
	returns = 5 * time.Second
)

// observed returns the latest time at which the leader does not observe a write.
func (h *History) observed(m oracle.Moment) time.Time {
	return oracle.Undisturbed(m.Latest, h.Observation, h.Stale)
}

// done returns the time when an undisturbed leader has had so much time.
func (h *History) done(from time.Time, d time.Duration) time.Time {
	return oracle.Undisturbed(from, d, h.Unled)
}

// covers reports whether a pod holds a device of a drain.
func (d *Drain) covers(p *Pod) bool {
	for _, have := range p.Devices {
		for _, device := range d.Devices {
			if have == device {
				return true
			}
		}
	}
	return false
}

// end returns the first sample that shows the end of a drain, or nil.
func (h *History) end(d *Drain) *Sample {
	for i := range h.Samples {
		if state := h.Samples[i].Drains[d.Name]; state.Drained || state.Failed {
			return &h.Samples[i]
		}
	}
	return nil
}

func (h *History) pod(uid string) *Pod {
	for _, p := range h.Pods {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }
