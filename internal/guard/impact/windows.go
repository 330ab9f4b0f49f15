package impact

import (
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/dra-steward/dra-steward/api/v1alpha1"
	"github.com/dra-steward/dra-steward/internal/guard"
	"github.com/dra-steward/dra-steward/internal/guard/windows"
)

// A later eviction begins at each of these times: whenever a window of a drain opens, or at the timeAdded of a rule.
type later struct {
	object string
	begins []time.Time
	// hit is what it affects at present.
	hit func() guard.Hit
}

// begun returns the evictions that count with one that begins at a time: those that began, the writes of a caller that
// are not stored yet, and those that begin when it does. A drain begins when it is written, and whenever one of its
// windows opens; a rule when it is written, or at a later timeAdded.
func (b *beginnings) begun(admitted *admissions, now time.Time, window time.Duration) guard.Begun {
	var counted func() ([]guard.Start, time.Time)
	waits := sync.OnceValue(func() []later { return b.waits(admitted, now, window) })
	return func(object string, at time.Time) ([]guard.Start, time.Time) {
		if counted == nil { // only that of a write has admissions, and is asked about one object
			counted = sync.OnceValues(func() ([]guard.Start, time.Time) { return b.starts(admitted, object, now, window) })
		}
		starts, omitted := counted()
		all, waiting := slices.Clone(starts), waits()
		if at.After(now) { // it counts then, though it counts now, too
			all = slices.DeleteFunc(all, func(s guard.Start) bool { return s.Object == object || at.Sub(s.Time) >= window })
		}
		for _, one := range waiting {
			begins, near := one.near(at, window)
			k := slices.IndexFunc(all, func(s guard.Start) bool { return s.Object == one.object })
			switch {
			case !near || one.object == object: // what is written takes its place
			case k >= 0: // it was written within the window
				if begins.After(all[k].Time) {
					all[k].Time = begins
				}
			case len(all) >= guard.MostStarts:
				omitted = now
			default:
				all = append(all, guard.Start{Object: one.object, Time: begins, Hit: one.hit()})
			}
		}
		return all, omitted
	}
}

// begins are when what is written begins to evict within a week.
func begins(object any, now time.Time) []time.Time {
	switch object := object.(type) {
	case *v1alpha1.DeviceDrain:
		return windows.Begins(object.Spec.Windows, now)
	case *resourceapi.DeviceTaintRule:
		return []time.Time{guard.Begins(object, now)}
	}
	return []time.Time{now}
}

// near returns when an eviction begins within a time of another one.
func (l later) near(at time.Time, window time.Duration) (time.Time, bool) {
	k := slices.IndexFunc(l.begins, func(begins time.Time) bool { return begins.Sub(at).Abs() < window })
	if k < 0 {
		return time.Time{}, false
	}
	return l.begins[k], true
}

// wait remembers a drain while it evicts in windows, and a rule until its timeAdded.
func (b *beginnings) wait(one beginning, evicts bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	delete(b.waiting, one.object)
	if !evicts || len(one.windows) == 0 && one.due.IsZero() {
		return
	}
	if !one.due.IsZero() {
		b.admitted.stored(one)
		one.admitted = one.affects()
	}
	if b.waiting == nil {
		b.waiting = map[string]beginning{}
	}
	b.waiting[one.object] = one
}

// arrive begins the rules whose timeAdded has come. Pods can have left since: what a rule affected before counts, too.
func (b *beginnings) arrive(now time.Time) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for object, one := range b.waiting {
		if one.due.IsZero() || one.due.After(now) {
			continue
		}
		delete(b.waiting, object)
		one.at, one.due = one.due, time.Time{}
		b.begin(one)
	}
}

// waits are the drains with windows and the rules that wait, and those among the writes of a caller that are not
// stored yet.
func (b *beginnings) waits(admitted *admissions, now time.Time, window time.Duration) (all []later) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if admitted != nil {
		for _, one := range admitted.unstored(now) {
			all = append(all, one.later(now, window))
		}
	}
	for object, one := range b.waiting {
		if len(one.admitted.Devices) == 0 && !one.due.IsZero() { // it was read before the claims
			one.admitted = one.affects()
			b.waiting[object] = one
		}
		all = append(all, one.later(now, window))
	}
	return all
}

// later is the eviction at its next times.
func (b beginning) later(now time.Time, window time.Duration) later {
	begins := []time.Time{b.due}
	if b.due.IsZero() {
		begins = windows.Openings(b.windows, now.Add(-window))
	}
	return later{b.object, begins, sync.OnceValue(func() guard.Hit { return b.affects().Pace(b.perMinute, window) })}
}

// opens reports whether a drain that waited for a window evicts now.
func opens(old, d *v1alpha1.DeviceDrain) bool {
	return old != nil && guard.WidensDrain(nil, d) && !apimeta.IsStatusConditionTrue(old.Status.Conditions, v1alpha1.DrainDraining) &&
		apimeta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.DrainDraining)
}
