package evictor

import "time"

const (
	// ProbeCount is how many probes in a row must have had no answer until the
	// controller in kube-controller-manager is called absent, and ProbeSpan how far at
	// least the first and the last of them are apart: a failover takes less.
	ProbeCount = 3
	ProbeSpan  = 2 * time.Minute
	// ProbePeriod is the time between two probes that count.
	ProbePeriod = ProbeSpan / (ProbeCount - 1)
	// ProbeAnswer is how long the other controller has to answer one.
	ProbeAnswer = 20 * time.Second
)

// A Source is where taints come from.
type Source uint8

const (
	// SliceSource are taints that drivers publish.
	SliceSource Source = iota
	// RuleSource are taints of DeviceTaintRules.
	RuleSource
)

// String is what metrics and logs say.
func (s Source) String() string { return [...]string{"slices", "rules"}[s] }

// A Presence says whether the controller in kube-controller-manager evicts.
type Presence uint8

const (
	// Unknown is the beginning: then nobody is evicted.
	Unknown Presence = iota
	// Present means that it does.
	Present
	// Absent means that it does not.
	Absent
)

// String is what metrics and logs say.
func (p Presence) String() string { return [...]string{"unknown", "present", "absent"}[p] }

// Coexistence finds out, for each source of taints, whether the controller in
// kube-controller-manager evicts, from what is seen of it. The first sign of it counts at
// once; its absence only after [ProbeCount] probes without an answer over [ProbeSpan].
// The zero value knows nothing. It has no clock: times come with what was seen, and do
// not run backwards.
type Coexistence struct {
	slices, rules sourceCoexistence
}

type sourceCoexistence struct {
	presence Presence
	// unanswered probes in a row, from first to last.
	unanswered  int
	first, last time.Time
}

func (c *Coexistence) of(s Source) *sourceCoexistence {
	if s == RuleSource {
		return &c.rules
	}
	return &c.slices
}

// Presence is what is known of a source.
func (c *Coexistence) Presence(s Source) Presence { return c.of(s).presence }

// Seen notes that the other controller has done something for a source. The one that
// evicts for rules evicts for slices, too: it is one controller, with a feature gate.
func (c *Coexistence) Seen(s Source) {
	c.slices = sourceCoexistence{presence: Present}
	if s == RuleSource {
		c.rules = sourceCoexistence{presence: Present}
	}
}

// Unanswered notes a probe that the other controller has not answered. Those that
// follow another by less than [ProbePeriod] do not count.
func (c *Coexistence) Unanswered(s Source, now time.Time) {
	of := c.of(s)
	switch {
	case of.unanswered == 0:
		of.first = now
	case now.Sub(of.last) < ProbePeriod:
		return
	}
	of.unanswered++
	of.last = now
	if of.unanswered >= ProbeCount && now.Sub(of.first) >= ProbeSpan {
		of.presence = Absent
	}
}

// Shares are our part.
func (c *Coexistence) Shares() Shares {
	return Shares{Slices: c.slices.shares(), Rules: c.rules.shares()}
}

func (s sourceCoexistence) shares() ClassShares {
	switch s.presence {
	case Present:
		return presentShare
	case Absent:
		return absentShare
	}
	return ClassShares{}
}
