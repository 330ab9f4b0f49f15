package report

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/pkg/evictor"
	"github.com/dra-steward/dra-steward/pkg/tracker"
	"github.com/dra-steward/dra-steward/pkg/usage"
)

// Minors of Kubernetes whose kube-controller-manager evicts for taints in slices, and for
// DeviceTaintRules, by default.
const (
	evictsForSlices = 36
	evictsForRules  = 37
)

// on is the mode of the controller on a step of the ladder.
func (e Evictions) on(mode v1alpha1.Mode) evictor.Mode {
	switch {
	case e.Mode != "":
		return e.Mode
	case mode == v1alpha1.ModeEnforce:
		return evictor.ModeAuto
	}
	return evictor.ModeObserve
}

// ours reports whether a mode acts on a reason. The mode auto finds out who else evicts; here
// that is taken from the version of the API server.
func (e Evictions) ours(mode evictor.Mode, r evictor.Reason) bool {
	switch mode {
	case evictor.ModeFull:
		return true
	case evictor.ModeSupplement:
		return r.ExtendedResource
	case evictor.ModeAuto:
		evicts := evictsForSlices
		if r.Taint.FromRule() {
			evicts = evictsForRules
		}
		return r.ExtendedResource || e.Minor != 0 && e.Minor < evicts
	}
	return false
}

// due are the verdicts on all pods that hold devices.
func (in Input) due() map[*corev1.Pod]evictor.Verdict {
	taints := evictor.TaintsFunc(in.taintsOf)
	due := map[*corev1.Pod]evictor.Verdict{}
	for _, pod := range in.Pods {
		if v := evictor.DecidePod(pod, in.Holders, taints, in.Evictions.Settings, in.Now); v.Evict() {
			due[pod] = v
		}
	}
	return due
}

// evict sorts the pods that have to go into those that the controller of the step evicts,
// those that it leaves alone because their taints are older than it acts on, and those that
// it leaves to others. A step that is to come begins now.
func (s *Step) evict(in Input, due map[*corev1.Pod]evictor.Verdict, today bool) {
	evicted, spared, left := []Eviction{}, []Eviction{}, []Eviction{}
	for pod, verdict := range due {
		ours := verdict.Only(func(r evictor.Reason) bool { return in.Evictions.ours(s.Evictions, r) })
		if !ours.Evict() {
			left = append(left, eviction(pod, verdict))
			continue
		}
		young := ours.Only(func(r evictor.Reason) bool {
			since := in.Evictions.Since
			if since == nil {
				return today // it works already; when it began is unknown
			}
			return !since.After(began(*r.Taint))
		})
		if young.Evict() {
			evicted = append(evicted, eviction(pod, young))
		} else {
			spared = append(spared, eviction(pod, ours))
		}
	}
	for _, list := range [][]Eviction{evicted, spared, left} {
		slices.SortFunc(list, func(a, b Eviction) int { return cmp.Compare(a.Pod, b.Pod) })
	}
	s.Evicted, s.Spared, s.Left = evicted, spared, left
}

func eviction(pod *corev1.Pod, v evictor.Verdict) Eviction {
	return Eviction{Pod: pod.Namespace + "/" + pod.Name, At: v.At.UTC(), Reason: v.Reasons[0].String()}
}

// taintsOf are the taints of a device; of one that is not published those of rules.
func (in Input) taintsOf(id evictor.DeviceID) (taints []evictor.Taint) {
	device, published := in.View.Device(id.Driver, id.Pool, id.Device)
	if !published {
		for rule := range in.View.Rules() {
			if selects(rule, id) {
				taints = append(taints, ofRule(rule))
			}
		}
		return taints
	}
	for i, t := range device.Taints() {
		if t.Source.Kind != tracker.RuleSource {
			taints = append(taints, evictor.Taint{DeviceTaint: t.DeviceTaint, Index: i})
		} else if rule := in.View.Rule(t.Source.Name); rule != nil {
			taints = append(taints, ofRule(rule))
		}
	}
	return taints
}

func ofRule(rule *resourceapi.DeviceTaintRule) evictor.Taint {
	return evictor.Taint{DeviceTaint: rule.Spec.Taint, Rule: evictor.Rule{Name: rule.Name, UID: rule.UID}, Since: rule.CreationTimestamp.Time}
}

func selects(rule *resourceapi.DeviceTaintRule, id usage.DeviceID) bool {
	s := rule.Spec.DeviceSelector
	return s != nil && (s.Driver == nil || *s.Driver == id.Driver) &&
		(s.Pool == nil || *s.Pool == id.Pool) && (s.Device == nil || *s.Device == id.Device)
}
