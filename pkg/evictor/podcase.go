package evictor

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A stage is how far the eviction of a pod has come.
type stage uint8

const (
	waiting stage = iota // for its time, or for nothing
	acting               // a worker has it
	paused               // until a ceiling is raised, or what exceeds it is less
	done                 // it was deleted by us, and is not gone yet
)

// A podCase is what is known about one pod that has a verdict, or was evicted. A rule can
// make ten thousand of them, so what most have not got takes no more than a pointer.
type podCase struct {
	pod types.NamespacedName
	uid types.UID
	// verdict is the whole decision, plan and held the parts of it that are for us to
	// carry out, by these shares, and would what rules with the effect None would do.
	verdict, plan, held, would *reasons
	// asked are the reasons of a deletion by us that had no answer: it may have been
	// carried out.
	asked  *reasons
	shares Shares
	stage  stage
	// taken says that somebody else is about to end the pod, ending that it is being
	// deleted, by whomever.
	taken, ending bool
	failures      int32
	// place is the index in the heap, -1 outside.
	place int32
	// seen is when the verdict first had reasons, since when the plan first had.
	seen, since moment
	// at is when to act: the plan's time or later.
	at time.Time
}

// reasons are those of a verdict, in their order; nil are none.
type reasons struct{ all []Reason }

func reasonsOf(v Verdict) *reasons {
	if !v.Evict() {
		return nil
	}
	return &reasons{slices.Clip(v.Reasons)}
}

// verdict is what the reasons are of.
func (r *reasons) verdict() Verdict {
	if r == nil {
		return Verdict{}
	}
	return Verdict{At: earliest(r.all), Reasons: r.all}
}

// set takes over a decision.
func (c *podCase) set(d decision) {
	c.verdict, c.held, c.would, c.shares = reasonsOf(d.verdict), reasonsOf(d.plan.held), reasonsOf(d.would), d.plan.shares
	if c.plan = c.verdict; !d.plan.whole(d.verdict) {
		c.plan = reasonsOf(d.plan.Verdict)
	}
}

// decision is what was decided last.
func (c *podCase) decision() decision {
	return decision{verdict: c.verdict.verdict(), plan: c.planned(), would: c.would.verdict(), ending: c.ending}
}

func (c *podCase) planned() plan {
	return plan{Verdict: c.plan.verdict(), held: c.held.verdict(), shares: c.shares}
}

// idle says that there is nothing about the pod that has to be known.
func (c *podCase) idle() bool { return c.verdict == nil && c.would == nil }

// state is how metrics count the pod, empty for not at all.
func (c *podCase) state() string {
	switch {
	case c.stage == done || c.verdict == nil:
		return ""
	case c.stage == paused:
		return "paused"
	case c.plan != nil:
		return "planned"
	case c.held != nil:
		return "held"
	}
	return "observed"
}

// A moment is a time in a third of the memory: how long after the clock of the cases
// began. Zero is none.
type moment time.Duration

// clock turns times into moments and back, monotonic readings as well.
type clock struct{ begin time.Time }

func (k *clock) moment(t time.Time) moment {
	if k.begin.IsZero() {
		k.begin = t.Add(-1)
	}
	return moment(t.Sub(k.begin))
}

func (k *clock) time(m moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return k.begin.Add(time.Duration(m))
}
