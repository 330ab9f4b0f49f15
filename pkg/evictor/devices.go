package evictor

import (
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/dra-steward/dra-steward/pkg/toleration"
	"github.com/dra-steward/dra-steward/pkg/tracker"
)

// view implements [Taints] on a tracker. DeviceTaintRules select by name, so they also
// taint a device that no slice publishes.
type view struct {
	tracker *tracker.Tracker
	rules   cache.Store
	seen    *firstSeen
}

// Taints implements [Taints].
func (v view) Taints(id DeviceID) (taints []Taint) {
	device, published := v.tracker.Snapshot().Device(id.Driver, id.Pool, id.Device)
	if !published {
		return v.ofRules(id)
	}
	for i, t := range device.Taints() {
		taint := Taint{DeviceTaint: t.DeviceTaint}
		if t.Source.Kind == tracker.RuleSource {
			taint.Rule = Rule{Name: t.Source.Name, UID: t.Source.UID}
		} else {
			taint.Index = i
		}
		taints = append(taints, v.complete(id, taint))
	}
	return taints
}

// preview returns the taints of rules with the effect None, as if it were NoExecute.
func (v view) preview() Taints {
	return TaintsFunc(func(id DeviceID) (taints []Taint) {
		for _, t := range v.Taints(id) {
			if t.FromRule() && t.Effect == resourceapi.DeviceTaintEffectNone {
				t.Effect = resourceapi.DeviceTaintEffectNoExecute
				taints = append(taints, t)
			}
		}
		return taints
	})
}

func (v view) ofRules(id DeviceID) (taints []Taint) {
	for _, object := range v.rules.List() {
		rule, ok := object.(*resourceapi.DeviceTaintRule)
		if ok && selects(rule, id) {
			taints = append(taints, v.complete(id, Taint{DeviceTaint: rule.Spec.Taint, Rule: Rule{Name: rule.Name, UID: rule.UID}}))
		}
	}
	return taints
}

// complete sets Since for a taint without TimeAdded.
func (v view) complete(id DeviceID, taint Taint) Taint {
	if !taint.TimeAdded.IsZero() {
		return taint
	}
	if taint.FromRule() {
		if object, exists, err := v.rules.GetByKey(taint.Rule.Name); err == nil && exists {
			if rule, ok := object.(*resourceapi.DeviceTaintRule); ok && rule.UID == taint.Rule.UID {
				taint.Since = rule.CreationTimestamp.Time
				return taint
			}
		}
	}
	taint.Since = v.seen.since(id, taint.DeviceTaint)
	return taint
}

func selects(rule *resourceapi.DeviceTaintRule, id DeviceID) bool {
	s := rule.Spec.DeviceSelector
	return s != nil && (s.Driver == nil || *s.Driver == id.Driver) &&
		(s.Pool == nil || *s.Pool == id.Pool) && (s.Device == nil || *s.Device == id.Device)
}

// firstSeen records when taints without a time were first seen, per device, until the
// taints of the device change.
type firstSeen struct {
	now   func() time.Time
	mutex sync.Mutex
	first map[DeviceID]map[resourceapi.DeviceTaint]time.Time
}

func (s *firstSeen) since(id DeviceID, taint resourceapi.DeviceTaint) time.Time {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	taint.TimeAdded = nil
	if s.first == nil {
		s.first = map[DeviceID]map[resourceapi.DeviceTaint]time.Time{}
	}
	if s.first[id] == nil {
		s.first[id] = map[resourceapi.DeviceTaint]time.Time{}
	}
	at, known := s.first[id][taint]
	if !known {
		at = s.now()
		s.first[id][taint] = at
	}
	return at
}

// keep drops the taints that a device no longer has.
func (s *firstSeen) keep(id DeviceID, taints []resourceapi.DeviceTaint) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	had := s.first[id]
	delete(s.first, id)
	for _, taint := range taints {
		taint.TimeAdded = nil
		if at, known := had[taint]; known {
			if s.first[id] == nil {
				s.first[id] = map[resourceapi.DeviceTaint]time.Time{}
			}
			s.first[id][taint] = at
		}
	}
}

// changedDevices yields the devices that differ between two versions of a slice in their
// taints that evict, or in their existence. Either version may be nil.
func changedDevices(before, after *resourceapi.ResourceSlice) iter.Seq2[DeviceID, difference] {
	switch {
	case !sameDevices(before, after):
		return maps.All(differences(taintsOf(before), taintsOf(after)))
	case before.Spec.Pool.Generation != after.Spec.Pool.Generation:
		return maps.All(differences(nil, taintsOf(after))) // other slices of the pool can have the same devices
	}
	return func(yield func(DeviceID, difference) bool) { // as nearly always
		for i := range after.Spec.Devices {
			d := difference{before: before.Spec.Devices[i].Taints, after: after.Spec.Devices[i].Taints}
			if !sameTaints(d.before, d.after) && !yield(idOf(after, i), d) {
				return
			}
		}
	}
}

// A difference is a change of a device between two versions of a slice.
type difference struct {
	before, after []resourceapi.DeviceTaint
	// all is true if the device came or went, or can now be that of another slice: then
	// the change matters to all claims.
	all bool
}

// matters reports whether the change matters to an allocation with these tolerations: it
// does not while the taints that count stay the same, at the same places. One rule can
// taint all devices of a cluster whose pods tolerate it.
func (d difference) matters(tolerations []resourceapi.DeviceToleration, settings Semantics) bool {
	if d.all || len(tolerations) == 0 {
		return true
	}
	next := func(taints []resourceapi.DeviceTaint, i int) int {
		for i < len(taints) && !counts(taints[i], tolerations, settings) {
			i++
		}
		return i
	}
	i, j := next(d.before, 0), next(d.after, 0)
	for i < len(d.before) && j < len(d.after) {
		if i != j || !sameTaint(d.before[i], d.after[j]) {
			return true
		}
		i, j = next(d.before, i+1), next(d.after, j+1)
	}
	return i < len(d.before) || j < len(d.after)
}

// counts reports whether a taint can be a reason for an eviction, now or in a preview, of
// an allocation with these tolerations. One without a time counts always: when it was
// first seen is recorded with the decision.
func counts(taint resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration, settings Semantics) bool {
	switch {
	case !evictsOrPreviews(taint.Effect):
		return false
	case taint.TimeAdded == nil:
		return true
	}
	taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	return !toleration.Evaluator{EmptyEffect: settings.EmptyEffect}.Evaluate(tolerations, taint).Forever()
}

func selectorOf(id *DeviceID) *resourceapi.DeviceTaintSelector {
	return &resourceapi.DeviceTaintSelector{Driver: &id.Driver, Pool: &id.Pool, Device: &id.Device}
}

// generations has the complete generation of each pool with several slices: when it
// changes, so do the devices of slices that do not change.
type generations map[poolID]int64

type poolID struct{ driver, pool string }

// poolsOf returns the pools of two versions of a slice, either of which may be nil.
func poolsOf(before, after *resourceapi.ResourceSlice) (pools []poolID) {
	for _, slice := range []*resourceapi.ResourceSlice{before, after} {
		if slice == nil {
			continue
		}
		if id := (poolID{slice.Spec.Driver, slice.Spec.Pool.Name}); !slices.Contains(pools, id) {
			pools = append(pools, id)
		}
	}
	return pools
}

// changed reports whether the complete generation of a pool has changed since the last call.
func (g generations) changed(snapshot *tracker.Snapshot, id poolID) bool {
	had, known := g[id]
	several := len(snapshot.ByPool(id.driver, id.pool)) > 1
	if !several {
		delete(g, id)
		return known
	}
	has, found := snapshot.CompleteGeneration(id.driver, id.pool)
	if !found {
		has = math.MinInt64
	}
	g[id] = has
	return !known || had != has
}

func differences(had, has map[DeviceID][]resourceapi.DeviceTaint) map[DeviceID]difference {
	changed := map[DeviceID]difference{}
	for id, taints := range has {
		if old, was := had[id]; !was || !sameTaints(old, taints) {
			changed[id] = difference{after: taints, all: true}
		}
	}
	for id := range had {
		if _, is := has[id]; !is {
			changed[id] = difference{all: true}
		}
	}
	return changed
}

// sameDevices reports whether two slices have the same devices in the same order.
func sameDevices(a, b *resourceapi.ResourceSlice) bool {
	if a == nil || b == nil || a.Spec.Driver != b.Spec.Driver || a.Spec.Pool.Name != b.Spec.Pool.Name || len(a.Spec.Devices) != len(b.Spec.Devices) {
		return false
	}
	for i := range a.Spec.Devices {
		if a.Spec.Devices[i].Name != b.Spec.Devices[i].Name {
			return false
		}
	}
	return true
}

func idOf(slice *resourceapi.ResourceSlice, i int) DeviceID {
	return DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}
}

func taintsOf(slice *resourceapi.ResourceSlice) map[DeviceID][]resourceapi.DeviceTaint {
	if slice == nil {
		return nil
	}
	all := make(map[DeviceID][]resourceapi.DeviceTaint, len(slice.Spec.Devices))
	for i := range slice.Spec.Devices {
		all[idOf(slice, i)] = slice.Spec.Devices[i].Taints
	}
	return all
}

// sameTaints reports whether two lists have the same NoExecute taints and the same None
// taints, which are previewed. The time matters only for NoExecute.
func sameTaints(a, b []resourceapi.DeviceTaint) bool {
	i, j := 0, 0
	for {
		i, j = nextTaint(a, i), nextTaint(b, j)
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if !sameTaint(a[i], b[j]) {
			return false
		}
		i, j = i+1, j+1
	}
}

func sameTaint(a, b resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect &&
		(a.Effect != resourceapi.DeviceTaintEffectNoExecute || a.TimeAdded.Equal(b.TimeAdded))
}

// nextTaint returns the index of the first NoExecute or None taint, from i on.
func nextTaint(taints []resourceapi.DeviceTaint, i int) int {
	for i < len(taints) && !evictsOrPreviews(taints[i].Effect) {
		i++
	}
	return i
}

func evictsOrPreviews(effect resourceapi.DeviceTaintEffect) bool {
	return effect == resourceapi.DeviceTaintEffectNoExecute || effect == resourceapi.DeviceTaintEffectNone
}

// selected returns the number of published devices that a rule selects.
func (c *Controller) selected(rule *resourceapi.DeviceTaintRule) int {
	snapshot := c.options.Tracker.Snapshot()
	s := rule.Spec.DeviceSelector
	switch {
	case s == nil:
		return 0
	case s.Driver != nil && s.Pool != nil && s.Device != nil:
		if _, published := snapshot.Device(*s.Driver, *s.Pool, *s.Device); published {
			return 1
		}
		return 0
	}
	found := map[DeviceID]bool{}
	count := func(all []*resourceapi.ResourceSlice) {
		for _, slice := range all {
			for i := range slice.Spec.Devices {
				if id := (DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: slice.Spec.Devices[i].Name}); selects(rule, id) {
					found[id] = true
				}
			}
		}
	}
	if s.Driver != nil && s.Pool != nil {
		count(snapshot.ByPool(*s.Driver, *s.Pool))
	} else {
		count(snapshot.List(nil))
	}
	return len(found)
}
