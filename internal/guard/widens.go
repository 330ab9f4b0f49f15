package guard

import (
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
)

// Widens reports whether a write of a DeviceTaintRule lets it evict what it did not evict
// before, or at another time: it has the effect NoExecute and selects something, and the stored
// rule had another effect or taint, did not select all of that, or waits for another time. old is
// nil on creation. The match conditions of the chart's guard webhook say the same in CEL, in which
// there is no clock: they send every change of timeAdded.
func Widens(old, rule *resourceapi.DeviceTaintRule, now time.Time) bool {
	if rule.Spec.Taint.Effect != resourceapi.DeviceTaintEffectNoExecute || rule.Spec.DeviceSelector == nil {
		return false
	}
	if old == nil || old.Spec.Taint.Effect != rule.Spec.Taint.Effect ||
		old.Spec.Taint.Key != rule.Spec.Taint.Key || old.Spec.Taint.Value != rule.Spec.Taint.Value {
		return true
	}
	return !covers(old.Spec.DeviceSelector, rule.Spec.DeviceSelector) || moves(old, rule, now)
}

// Begins is when a rule begins to evict that is written now: no evictor evicts before timeAdded.
func Begins(rule *resourceapi.DeviceTaintRule, now time.Time) time.Time {
	if added := rule.Spec.Taint.TimeAdded; added != nil && added.After(now) {
		return added.Time
	}
	return now
}

// clockSkew is how far the clock of the API server, which fills in timeAdded, may be ahead.
const clockSkew = time.Minute

// moves reports whether a rule that waits for its timeAdded gets another one, or one that evicts begins to wait.
func moves(old, rule *resourceapi.DeviceTaintRule, now time.Time) bool {
	was, is := Begins(old, now), Begins(rule, now)
	return !was.Equal(is) && (was.After(now) || is.After(now.Add(clockSkew)))
}

// WidensDrain reports whether a write of a DeviceDrain begins to drain, drains faster, or at other times: it
// is neither paused nor a dry run, and the stored one was, or had a lower rate or other windows. Fewer windows
// can begin together with those of other drains. Which devices are drained cannot be changed. old is nil on creation.
func WidensDrain(old, drain *v1alpha1.DeviceDrain) bool {
	drains := func(d *v1alpha1.DeviceDrain) bool { return d != nil && !d.Spec.Paused && !d.Spec.DryRun }
	rate := func(d *v1alpha1.DeviceDrain) int32 {
		return ptr.Deref(d.Spec.EvictionsPerMinute, v1alpha1.DrainRateMax+1)
	}
	return drains(drain) && (!drains(old) || rate(drain) > rate(old) || !equality.Semantic.DeepEqual(old.Spec.Windows, drain.Spec.Windows))
}

// WidensReaction reports whether a write of a DeviceReaction lets it evict: it has the mode Act and
// evicts pods, and the stored one did not, or was another in any way. old is nil on creation.
func WidensReaction(old, reaction *v1alpha1.DeviceReaction) bool {
	evicts := func(r *v1alpha1.DeviceReaction) bool {
		return r != nil && r.Spec.Mode == v1alpha1.ReactionAct && !r.Spec.Then.CordonOnly
	}
	return evicts(reaction) && (!evicts(old) || !equality.Semantic.DeepEqual(old.Spec, reaction.Spec))
}

// WidensRoll reports whether a write of a DeviceRoll lets it drain nodes, more at a time, or faster: it is
// neither paused nor undone, and the stored one was, or had less at a time. Which nodes it has cannot be
// changed. old is nil on creation.
func WidensRoll(old, roll *v1alpha1.DeviceRoll) bool {
	rolls := func(r *v1alpha1.DeviceRoll) bool { return r != nil && !r.Spec.Paused && !r.Spec.Undo }
	rate := func(r *v1alpha1.DeviceRoll) int32 {
		return ptr.Deref(r.Spec.Drain.EvictionsPerMinute, v1alpha1.DrainRateMax+1)
	}
	return rolls(roll) && (!rolls(old) || ptr.Deref(roll.Spec.AtATime, 1) > ptr.Deref(old.Spec.AtATime, 1) ||
		roll.Spec.PerLabel != old.Spec.PerLabel || rate(roll) > rate(old))
}

// Everything reports whether a rule selects all devices of the cluster.
func Everything(selector *resourceapi.DeviceTaintSelector) bool {
	return selector != nil && selector.Driver == nil && selector.Pool == nil && selector.Device == nil
}

// covers reports whether a selector selects at least what another does.
func covers(all, some *resourceapi.DeviceTaintSelector) bool {
	part := func(all, some *string) bool { return all == nil || some != nil && *all == *some }
	return all != nil && part(all.Driver, some.Driver) && part(all.Pool, some.Pool) && part(all.Device, some.Device)
}
