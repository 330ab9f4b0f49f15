package drainoracle

import (
	"slices"

	"github.com/dra-steward/dra-steward/test/envtest/eviction/campaign/internal/oracle"
)

// cordons checks the rules of each sample. It reports the first violation of each drain.
func (h *History) cordons(v *violations) {
	for _, d := range h.Drains {
		for i := range h.Samples {
			if h.cordon(v, d, &h.Samples[i]) {
				break
			}
		}
	}
}

// cordon checks that a sample has a rule for each device of a drain, or none if the drain has ended.
func (h *History) cordon(v *violations, d *Drain, s *Sample) (found bool) {
	rules := s.of(d)
	ended := h.end(d)
	lifted := ended != nil && d.Uncordons
	switch {
	case !d.End.Never():
		if len(rules) > 0 && h.done(d.End.Latest, h.Work).Before(s.Earliest) {
			v.add(Cordon, "%s is deleted at %s, and has %d rules at %s", d, clock(d.End.Latest), len(rules), clock(s.Earliest))
			return true
		}
		if !s.Latest.Before(d.End.Earliest) {
			return false
		}
	case d.DryRun && len(rules) > 0:
		v.add(Cordon, "%s is a dry run, and has %d rules at %s", d, len(rules), clock(s.Earliest))
		return true
	case lifted && ended.Drains[d.Name].Drained && len(rules) > 0 && h.done(ended.Latest, h.Work).Before(s.Earliest):
		v.add(Cordon, "%s has ended at %s, and has %d rules at %s", d, clock(ended.Latest), len(rules), clock(s.Earliest))
		return true
	}
	if d.DryRun || lifted && !s.Latest.Before(ended.Earliest) || !h.done(d.Begin.Latest, h.Work).Before(s.Earliest) {
		return false
	}
	for _, device := range d.Devices {
		if !cordoned(rules, device) && !h.tampered(d, device, s) {
			v.add(Cordon, "%s has no rule for %s at %s", d, device, clock(s.Earliest))
			return true
		}
	}
	return false
}

// of returns the rules of a drain.
func (s *Sample) of(d *Drain) (rules []Rule) {
	for _, r := range s.Rules {
		if r.Drain == d.Name {
			rules = append(rules, r)
		}
	}
	return rules
}

func cordoned(rules []Rule, device oracle.Device) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.selects(device) })
}

func (r Rule) selects(d oracle.Device) bool {
	return r.Device.Driver == d.Driver && r.Device.Pool == d.Pool && (r.Device.Name == "" || r.Device.Name == d.Name)
}

// tampered reports whether a rule of a device may not be restored yet.
func (h *History) tampered(d *Drain, device oracle.Device, s *Sample) bool {
	return slices.ContainsFunc(h.Tampered, func(t Tampering) bool {
		return t.Drain == d.Name && t.selects(device) && !t.Earliest.After(s.Latest) && !h.done(t.Latest, h.Work).Before(s.Earliest)
	})
}
