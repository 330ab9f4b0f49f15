// Package report says how the next steps of the ladder affect what a cluster has
// stored and to what its webhooks have seen, who holds which devices, and which taints are
// dormant. It knows no client.
package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/audit"
	"github.com/dra-steward/dra-steward/internal/kubernetes/faults"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/policy"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Seen is what the webhooks have counted since their replicas started.
type Seen struct {
	// Replicas have answered; none if no replica answered.
	Replicas int
	// Findings are the problems that were found, by the code of the policy or the ID of the
	// rule; Defaults the ones filled in or, while observing, withheld.
	Findings, Defaults map[string]int
}

// Evictions say how the controller decides.
type Evictions struct {
	// Mode is that of controller.mode; empty follows the ladder.
	Mode     evictor.Mode
	Settings evictor.Semantics
	// Since is the time before which taints are left alone: the zero time is none, nil the
	// time of the step.
	Since *time.Time
	// Minor is that of the API server, 0 if it is not known: then the newest.
	Minor int
}

// Input is what a report is made of.
type Input struct {
	// Modes are the steps, the one of today first.
	Modes  []v1alpha1.Mode
	Ladder *audit.Ladder
	View   *tracker.Snapshot
	// Holders and Pods can be set until [Maker.Report], which reads them.
	Holders   *usage.Index
	Pods      []*corev1.Pod
	Seen      Seen
	Evictions Evictions
	// Server is the version of the API server, empty if it is not known.
	Server string
	Now    time.Time
}

// A Report is what a person reads before the next step.
type Report struct {
	// Mode is that of today.
	Mode v1alpha1.Mode `json:"mode"`
	// Objects were checked; Replicas of the webhook have reported what they saw.
	Objects  int `json:"objects"`
	Replicas int `json:"replicas"`
	// Steps are that of today and those after it.
	Steps []Step `json:"steps"`
	// Holders have the number of devices of each holder, Devices the devices.
	Holders []Holder `json:"holders"`
	Devices []Device `json:"devices"`
	// Taints are all that there are, Dormant those of devices without a holder.
	Taints []Taint `json:"taints"`
	// Server is the version of the API server, Faults the known ones of that version of
	// Kubernetes.
	Server string         `json:"server,omitempty"`
	Faults []faults.Fault `json:"faults,omitempty"`
	// Notes list what is not known, and what is wrong apart from the ladder.
	Notes []string `json:"notes,omitempty"`
}

// A Step is what one mode does.
type Step struct {
	Mode v1alpha1.Mode `json:"mode"`
	// Evictions is the mode of the controller on this step.
	Evictions evictor.Mode `json:"evictions"`
	// Refused, Warned and Defaulted are by the code of a policy or the ID of a rule or default.
	Refused   Group `json:"refused"`
	Warned    Group `json:"warned"`
	Defaulted Group `json:"defaulted"`
	// Evicted are the pods that the controller evicts because of the taints of now; Spared
	// those whose taints are older than the step, and left alone; Left those that it leaves
	// to kube-controller-manager or, while it observes, to any other controller.
	Evicted []Eviction `json:"evicted"`
	Spared  []Eviction `json:"spared"`
	Left    []Eviction `json:"left"`
}

// A Group is what has come of objects and writes in the same way.
type Group struct {
	// Objects are so many stored ones, each counted once; Seen so many findings or defaults
	// of writes that the webhooks have seen.
	Objects int    `json:"objects"`
	Seen    int    `json:"seen"`
	Codes   []Code `json:"codes"`
}

// A Code is one policy, rule or default.
type Code struct {
	Code    string   `json:"code"`
	Objects []string `json:"objects"`
	Seen    int      `json:"seen"`
}

// An Eviction is a pod that a taint evicts.
type Eviction struct {
	Pod string `json:"pod"`
	// At is when the eviction is due, Reason the first reason.
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// A Maker makes a report of objects that it is given one by one.
type Maker struct {
	in      *Input
	objects int
	steps   []tally
}

// tally is what one step does, by code.
type tally struct {
	refused, warned, defaulted map[string][]string
	counts                     [3]int
}

// NewMaker begins a report.
func NewMaker(in *Input) *Maker {
	m := &Maker{in: in}
	for range in.Modes {
		m.steps = append(m.steps, tally{map[string][]string{}, map[string][]string{}, map[string][]string{}, [3]int{}})
	}
	return m
}

// Add checks a stored object.
func (m *Maker) Add(object audit.Object) error {
	name, outcomes, err := m.in.Ladder.Check(object)
	if err != nil {
		return err
	}
	m.objects++
	name += ofScheduler(object.JSON)
	for i, o := range outcomes {
		for kind, codes := range map[int][]string{0: o.Refused, 1: o.Warned, 2: o.Defaulted} {
			if len(codes) > 0 {
				m.steps[i].counts[kind]++
			}
			to := [3]map[string][]string{m.steps[i].refused, m.steps[i].warned, m.steps[i].defaulted}[kind]
			for _, code := range codes {
				to[code] = append(to[code], name)
			}
		}
	}
	return nil
}

// Report returns the report on what was added.
func (m *Maker) Report() Report {
	in := *m.in
	r := Report{Mode: in.Modes[0], Objects: m.objects, Replicas: in.Seen.Replicas}
	due := in.due()
	for i, mode := range in.Modes {
		t := m.steps[i]
		step := Step{Mode: mode, Evictions: in.Evictions.on(mode)}
		step.Refused = group(t.refused, t.counts[0], m.seen(i, policy.Deny))
		step.Warned = group(t.warned, t.counts[1], m.seen(i, policy.Warn))
		step.Defaulted = group(t.defaulted, t.counts[2], m.filled(i))
		step.evict(in, due, i == 0)
		r.Steps = append(r.Steps, step)
	}
	said := in.health()
	r.Devices, r.Holders = in.held(said)
	r.Taints = in.taints(said)
	r.Server, r.Faults = in.Server, faults.At(in.Server)
	r.Notes = slices.Concat(bounded(slices.Concat(faults.Rules(in.Server, in.View.Rules()), in.allocatedTwice())), in.unhealthy(said), unclear(said))
	return r
}

// seen are the findings of the webhooks that weigh so much on a step.
func (m *Maker) seen(step int, mode policy.Mode) map[string]int {
	found := map[string]int{}
	for code, n := range m.in.Seen.Findings {
		if n > 0 && m.in.Ladder.Weigh(code)[step] == mode {
			found[code] = n
		}
	}
	return found
}

func (m *Maker) filled(step int) map[string]int {
	if !m.in.Ladder.Fills()[step] {
		return nil
	}
	return m.in.Seen.Defaults
}

// group joins what is stored with what was seen.
func group(stored map[string][]string, objects int, seen map[string]int) Group {
	g := Group{Objects: objects, Codes: []Code{}}
	codes := map[string]bool{}
	for code := range stored {
		codes[code] = true
	}
	for code, n := range seen {
		codes[code] = true
		g.Seen += n
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		objects := append([]string{}, stored[code]...)
		slices.Sort(objects)
		g.Codes = append(g.Codes, Code{code, objects, seen[code]})
	}
	slices.SortStableFunc(g.Codes, func(a, b Code) int {
		return cmp.Or(cmp.Compare(len(b.Objects), len(a.Objects)), cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.Code, b.Code))
	})
	return g
}

// Changes reports whether a step after that of today refuses or evicts what that of today
// does not.
func (r Report) Changes() bool {
	today := r.Steps[0]
	for _, step := range r.Steps[1:] {
		if step.Refused.Objects > today.Refused.Objects || step.Refused.Seen > today.Refused.Seen || len(step.Evicted) > len(today.Evicted) {
			return true
		}
	}
	return false
}
