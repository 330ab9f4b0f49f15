package drainoracle

import (
	"slices"
	"strings"
	"time"
)

// A group is a drain, or several of which some removals cannot be told apart, with its accepted removals
// in order. Its limits are the sums of those of the drains.
type group struct {
	drains   []*Drain
	removals []Removal
}

func (g *group) String() string {
	var names []string
	for _, d := range g.drains {
		names = append(names, d.Name)
	}
	return "drain " + strings.Join(names, " and ")
}

// groups returns the groups of drains with removals.
func (h *History) groups() (all []*group) {
	of := map[*Drain]*group{}
	for _, r := range h.Removals {
		p := h.pod(r.Pod)
		if p == nil || r.Unanswered {
			continue
		}
		drains, _ := h.causes(p, r)
		if len(drains) == 0 {
			continue
		}
		merged := &group{removals: []Removal{r}}
		for _, d := range drains {
			old := of[d]
			switch {
			case old == nil:
				merged.drains = append(merged.drains, d)
			case !slices.Contains(merged.drains, d):
				merged.drains = append(merged.drains, old.drains...)
				merged.removals = append(merged.removals, old.removals...)
			}
		}
		for _, d := range merged.drains {
			of[d] = merged
		}
	}
	for _, d := range h.Drains {
		if g := of[d]; g != nil && g.drains[0] == d {
			slices.SortFunc(g.removals, func(a, b Removal) int { return a.At.Compare(b.At) })
			all = append(all, g)
		}
	}
	return all
}

// sum adds up a limit, unless one drain has none.
func (g *group) sum(limit func(*Drain) int) (total int) {
	for _, d := range g.drains {
		if limit(d) == 0 {
			return 0
		}
		total += limit(d)
	}
	return total
}

// rate checks that no minute has more removals than evictionsPerMinute.
func (h *History) rate(v *violations, g *group) {
	limit := g.sum(func(d *Drain) int { return d.PerMinute })
	for i := 0; i+limit < len(g.removals); i++ {
		if span := g.removals[i+limit].At.Sub(g.removals[i].At); span < time.Minute {
			v.add(Rate, "%s removes %d pods from %s to %s, in %s, and evictionsPerMinute is %d",
				g, limit+1, clock(g.removals[i].At), clock(g.removals[i+limit].At), span, limit)
		}
	}
}

// limits checks that not too many pods of a namespace or a node are on their way out.
func (h *History) limits(v *violations, g *group) {
	for _, one := range []struct {
		name  string
		limit int
		of    func(*Pod) string
	}{
		{"maxPerNamespace", g.sum(func(d *Drain) int { return d.PerNamespace }), func(p *Pod) string { return p.Namespace }},
		{"maxPerNode", g.sum(func(d *Drain) int { return d.PerNode }), func(p *Pod) string { return p.Node }},
	} {
		if one.limit == 0 {
			continue
		}
		for i, r := range g.removals {
			place, leaving := one.of(h.pod(r.Pod)), []string{}
			for _, earlier := range g.removals[:i+1] {
				gone, known := h.Gone[earlier.Pod]
				if p := h.pod(earlier.Pod); one.of(p) == place && (!known || gone.After(r.At)) {
					leaving = append(leaving, p.Name)
				}
			}
			if len(leaving) > one.limit {
				v.add(Limit, "%s evicts %d pods of %s at the same time, at %s, and %s is %d: %s",
					g, len(leaving), place, clock(r.At), one.name, one.limit, strings.Join(leaving, ", "))
			}
		}
	}
}
