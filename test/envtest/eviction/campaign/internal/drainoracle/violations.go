package drainoracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// A Kind is one of violation.
type Kind string

const (
	// Wrong is a pod that is removed without a reason.
	Wrong Kind = "wrong"
	// Twice is a pod that is evicted more than once.
	Twice Kind = "twice"
	// Lost is a pod that is gone without evidence.
	Lost Kind = "lost"
	// Broken is a PodDisruptionBudget that allows no eviction of a pod that is evicted.
	Broken Kind = "broken"
	// Rate is a minute with more evictions than evictionsPerMinute.
	Rate Kind = "rate"
	// Limit is a time with more pods on their way out than maxPerNamespace or maxPerNode.
	Limit Kind = "limit"
	// Early is an eviction before the scheduler observes the cordon.
	Early Kind = "early"
	// Missed is a pod that is not evicted in time, or a drain that is not Drained.
	Missed Kind = "missed"
	// Cordon is a rule that is missing, or left behind.
	Cordon Kind = "cordon"
	// Drained is a drain that is Drained while a claim holds one of its devices.
	Drained Kind = "drained"
)

// Kinds are all.
func Kinds() []Kind {
	return []Kind{Wrong, Twice, Lost, Broken, Rate, Limit, Early, Missed, Cordon, Drained}
}

// A Violation is something that the text does not allow.
type Violation struct {
	Kind Kind
	Text string
}

func (v Violation) String() string { return string(v.Kind) + ": " + v.Text }

type violations []Violation

func (v *violations) add(kind Kind, format string, args ...any) {
	*v = append(*v, Violation{kind, fmt.Sprintf(format, args...)})
}

// Check returns all violations of a history.
func (h *History) Check() []Violation {
	slices.SortFunc(h.Removals, func(a, b Removal) int { return a.At.Compare(b.At) })
	slices.SortFunc(h.Writes, func(a, b Write) int { return a.At.Compare(b.At) })
	var v violations
	h.removals(&v)
	h.counts(&v)
	for _, g := range h.groups() {
		h.rate(&v, g)
		h.limits(&v, g)
	}
	h.missed(&v)
	h.ends(&v)
	h.cordons(&v)
	return v
}

func (p *Pod) String() string {
	return fmt.Sprintf("pod %s/%s (%s, since %s)", p.Namespace, p.Name, p.UID, clock(p.Begin.Latest))
}

func (d *Drain) String() string { return "drain " + d.Name }

func (r Removal) String() string {
	verb := "evicted"
	if r.Delete {
		verb = "deleted"
	}
	return verb + " at " + clock(r.At)
}

// removals checks each removal by itself.
func (h *History) removals(v *violations) {
	first := map[string]bool{}
	for _, r := range h.Removals {
		p := h.pod(r.Pod)
		if p == nil {
			v.add(Wrong, "pod %s, which no test created, is %s", r.Pod, r)
			continue
		}
		drains, reasons := h.causes(p, r)
		if len(drains) == 0 {
			v.add(Wrong, "%s is %s: %s", p, r, strings.Join(reasons, "; "))
			continue
		}
		if !r.Delete && !r.Unanswered {
			for _, b := range h.Budgets {
				if b.Protected[p.UID] && r.At.After(b.InForce) && (b.End.Never() || r.At.Before(b.End.Earliest)) {
					v.add(Broken, "%s is %s, and the budget of %s allows none since %s", p, r, b.App, clock(b.InForce))
				}
			}
		}
		if len(drains) == 1 {
			h.early(v, p, r, drains[0], !first[drains[0].Name])
			first[drains[0].Name] = true
		}
	}
}

// causes returns the drains that may be the cause of a removal, or the reasons why there is none.
func (h *History) causes(p *Pod, r Removal) (drains []*Drain, reasons []string) {
	for _, d := range h.Drains {
		if !d.covers(p) {
			continue
		}
		if reason := h.against(d, p, r); reason != "" {
			reasons = append(reasons, d.String()+" "+reason)
			continue
		}
		drains = append(drains, d)
	}
	if reasons == nil {
		reasons = []string{"no drain has its devices"}
	}
	return drains, reasons
}

// against returns why a drain does not remove a pod at a time, or nothing.
func (h *History) against(d *Drain, p *Pod, r Removal) string {
	passed := d.Deadline != nil && !r.At.Before(d.Deadline.Earliest)
	ended := h.end(d)
	switch {
	case r.At.Before(d.Begin.Earliest):
		return "is not created before " + clock(d.Begin.Earliest)
	case !d.End.Never() && r.At.After(h.observed(d.End)):
		return "is deleted at " + clock(d.End.Latest)
	case d.DryRun:
		return "is a dry run"
	case ended != nil && (d.Uncordons || ended.Drains[d.Name].Failed) && r.At.After(ended.Latest.Add(h.Flight)):
		return "has ended at " + clock(ended.Latest)
	case r.Delete && (!passed || d.Deadline.Action != Delete):
		return "does not delete pods at this time"
	case d.Deadline != nil && d.Deadline.Action != Delete && r.At.After(oracle.Undisturbed(d.Deadline.Latest, h.Flight, h.Stale)):
		return "has the deadline " + clock(d.Deadline.Latest)
	case !r.Delete && !p.Controlled && d.KeepsBare:
		return "keeps pods without a controller"
	}
	for _, pause := range d.Pauses {
		if r.At.After(h.observed(pause.Begin)) && (pause.End.Never() || r.At.Before(pause.End.Earliest)) {
			return "is paused since " + clock(pause.Begin.Latest)
		}
	}
	return ""
}

// early checks that the last rule of a drain was written long enough before a removal. A leader may not
// observe that a rule was restored, except before the first removal.
func (h *History) early(v *violations, p *Pod, r Removal, d *Drain, first bool) {
	var last time.Time
	for _, w := range h.Writes {
		if w.Drain == d.Name && !w.At.After(r.At) {
			last = w.At
		}
	}
	switch {
	case last.IsZero():
		v.add(Early, "%s is %s, and %s has written no rule", p, r, d)
	case r.At.Sub(last) >= sync, !first && h.stale(last, r.At):
	default:
		v.add(Early, "%s is %s, %s after the last rule of %s was written at %s", p, r, r.At.Sub(last), d, clock(last))
	}
}

// stale reports whether the leader may not have observed changes in some part of a period.
func (h *History) stale(from, to time.Time) bool {
	return slices.ContainsFunc(h.Stale, func(s oracle.Span) bool { return s.From.Before(to) && s.To.After(from) })
}

// counts checks that each pod is removed once, and none without evidence.
func (h *History) counts(v *violations) {
	accepted, open := map[string][]string{}, map[string]bool{}
	for _, r := range h.Removals {
		if r.Unanswered {
			open[r.Pod] = true
			continue
		}
		accepted[r.Pod] = append(accepted[r.Pod], r.String())
	}
	for _, p := range h.Pods {
		switch n := len(accepted[p.UID]); {
		case n > 1:
			v.add(Twice, "%s is %s", p, strings.Join(accepted[p.UID], ", and "))
		case n == 0 && p.End.Never() && !open[p.UID] && !h.Left[p.UID]:
			v.add(Lost, "%s is gone, and neither the controller nor the test deleted it", p)
		}
	}
}
